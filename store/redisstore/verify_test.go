package redisstore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// lived returns a store that holds one of everything.
func lived(t *testing.T, server *testenv.RedisServer) *Store {
	t.Helper()
	clock := base.NewManual(start)
	s := open(t, Options{Addresses: []string{server.Addr}, Clock: clock})
	later := message("turns", "later", "b")
	later.VisibleAt = start.Add(time.Hour)
	noRoute := message("turns", "no route", "c")
	noRoute.Route, noRoute.TTL = "", time.Minute
	err := s.Commit(t.Context(), &store.Tx{
		Put:    []store.Message{message("turns", "ready", "a"), message("turns", "ready", "e"), later, noRoute, message("activities", "leased", "d")},
		Append: []store.Append{{Key: later.Key, Tag: 1<<64 - 1, Entries: [][]byte{[]byte("one"), []byte("two"), []byte("three")}}},
		PutRecords: []store.PutRecord{{Record: store.Record{
			Key: store.RecordKey{Kind: "instance", Tenant: "acme", ID: "r"}, Status: "running", Name: "order",
			Time: start, Tags: map[string]string{"color": "red"}, Body: []byte("body"),
		}}},
	})
	if err == nil {
		err = s.Commit(t.Context(), &store.Tx{Trim: []store.Trim{{Key: later.Key, Before: 1}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	claim(t, s, request("activities", 0))
	return s
}

// head is what is stored of a key on a route that has a number of messages, a place in the
// partition and a single message, but no log; and until when it is leased.
func head(messages byte, place, single string, until byte) string {
	token := ""
	if until > 0 {
		token = "token"
	}
	b := make([]byte, 33)
	b[11], b[23], b[25], b[26], b[27], b[28] = messages, until, byte(len("order")), 1, byte(len(place)), byte(len(token))
	return string(b) + "order0" + place + token + single
}

func TestVerifyFindsWhatContradictsItself(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	ready, noRoute, leased, later := keyID(message("turns", "ready", "").Key), keyID(message("turns", "no route", "").Key),
		keyID(message("activities", "leased", "").Key), keyID(message("turns", "later", "").Key)
	partition := string(long(short(nil, "turns"), "order"))
	place := string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(start.UnixMilli())), 1))
	single := place + strings.Repeat("\x00", 16) + "\x00\x01abody"
	rid := recordID(store.RecordKey{Kind: "instance", Tenant: "acme", ID: "r"})
	for _, row := range []struct {
		name    string
		command []string
		says    string
	}{
		{"a message without its body", []string{"DEL", "b"}, "no body"},
		{"a body without its message", []string{"HSET", "b", "12345678", "1234567890123456"}, "bodies of messages"},
		{"a key that is gone", []string{"DEL", "k" + ready}, "the key is not there"},
		{"an order that is gone", []string{"DEL", "o" + ready}, "in order"},
		{"a message that is not there by its ID", []string{"HDEL", "n" + ready, "a"}, "by ID"},
		{"a number of messages", []string{"SET", "k" + ready, head(3, place, "", 0)}, "it counts 3 messages"},
		{"a number of messages beside a single one", []string{"SET", "k" + later, head(2, place, single, 0)}, "has a single one"},
		{"a single message beside others", []string{"ZADD", "o" + later, "1", "12345678b"}, "a single one and 1 in order"},
		{"a single message beside others by their ID", []string{"HSET", "n" + later, "b", "1234567812345678"}, "a single one and 1 in order"},
		{"a single message that is cut off", []string{"SET", "k" + later, head(1, place, "short", 0)}, "too short"},
		{"a lease that ends at another time", []string{"SET", "k" + leased, head(1, "", single, 1)}, "its lease ends"},
		{"a message that no route counts", []string{"DEL", "v" + partition}, "not counted for its route"},
		{"a message that a route counts too much", []string{"ZADD", "v" + partition, "1", "12345678"}, "counted for a route"},
		{"a message that never expires", []string{"DEL", "x"}, "expires at -1"},
		{"something that expires and is not there", []string{"ZADD", "x", "1", "12345678\x00\x01a" + noRoute}, "to expire"},
		{"a lease that never ends", []string{"DEL", "l"}, "its lease ends"},
		{"a lease of nothing", []string{"ZADD", "l", "1", "x"}, "leases that are to end"},
		{"a lease that the key does not know", []string{"SET", "k" + leased, head(1, "", single, 0)}, "its lease ends"},
		{"a log that is too short", []string{"RPOP", "e" + later}, "its log has 1 entries"},
		{"messages without their key", []string{"HSET", "n" + keyID(store.Key{Queue: "q", Name: "n"}), "a", "x"}, "of its messages there is"},
		{"a log without its key", []string{"RPUSH", "e" + keyID(store.Key{Queue: "q", Name: "n"}), "x"}, "of its log there is"},
		{"a key that nobody can claim", []string{"DEL", "z" + partition + "acme"}, "not among the keys to claim"},
		{"a key that is claimed in vain", []string{"ZADD", "z" + partition + "acme", "1", "12345678x"}, "keys to claim"},
		{"a tenant without a turn", []string{"DEL", "t" + partition}, "no turn"},
		{"a route without a time", []string{"DEL", "wturns"}, "no time"},
		{"a place that is not that of the first message", []string{"SET", "k" + ready, head(2, "1234567812345678", "", 0)}, "first message"},
		{"a key that has nothing", []string{"SET", "k" + keyID(store.Key{Queue: "q", Name: "n"}), head(0, "", "", 0)}, "neither messages nor a log"},
		{"a record that lists do not find", []string{"DEL", "j\x08instancerunning"}, "lists do not find it"},
		{"a record that its tenant does not find", []string{"DEL", "i\x08instance\x00\x04acmerunning"}, "lists do not find it"},
		{"a status that lists do not know", []string{"DEL", "sinstance"}, "lists do not find it"},
		{"a list of a record that is not there", []string{"DEL", "r" + rid}, "in the lists of all tenants"},
		{"a record that is too short", []string{"SET", "r" + rid, "short"}, "too short"},
	} {
		s := lived(t, server)
		verifies(t, s)
		command := slices.Clone(row.command)
		command[1] = s.prefix + command[1]
		must(t, server, command...)
		var problems []string
		if err := s.Verify(t.Context(), func(problem string) { problems = append(problems, problem) }); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, row.says) }) {
			t.Errorf("%s: found %q, want %q", row.name, problems, row.says)
		}
	}
}

// TestFormat compares what is stored with what version 2 stores: a server keeps it for
// years.
func TestFormat(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := lived(t, server)
	check.Golden(t, "testdata/format.txt", dump(t, server, s))
}

// dump returns all that a store has on a server, one line for each thing.
func dump(t *testing.T, server *testenv.RedisServer, s *Store) string {
	t.Helper()
	var names []string
	if err := s.scan(t.Context(), s.segments[0], "*", func(name string) { names = append(names, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	read := map[string][]string{
		"string": {"GET"}, "list": {"LRANGE", "0", "-1"}, "set": {"SMEMBERS"}, "hash": {"HGETALL"}, "zset": {"ZRANGE", "0", "-1", "WITHSCORES"},
	}
	var lines strings.Builder
	for _, name := range names {
		m := must(t, server, "TYPE", s.prefix+name)
		kind, err := m.ToString()
		if err != nil {
			t.Fatal(err)
		}
		command := append([]string{read[kind][0], s.prefix + name}, read[kind][1:]...)
		fmt.Fprintf(&lines, "%s %s\n", strconv.Quote(name), kind)
		fields := texts(t, do(t, server, command...))
		if kind == "hash" || kind == "zset" {
			for i := 0; i+1 < len(fields); i += 2 {
				fields[i/2] = fields[i] + " = " + fields[i+1]
			}
			fields = fields[:len(fields)/2]
		}
		if kind == "hash" || kind == "set" {
			slices.Sort(fields)
		}
		for _, f := range fields {
			// Names of processes are random.
			fmt.Fprintf(&lines, "\t%s\n", strings.ReplaceAll(f, s.openID, "process"))
		}
	}
	return strings.ReplaceAll(lines.String(), "\t\"process\" = "+lastBeat(t, server, s), "\t\"process\" = now")
}

func lastBeat(t *testing.T, server *testenv.RedisServer, s *Store) string {
	t.Helper()
	m := must(t, server, "ZSCORE", s.prefix+"p", s.openID)
	score, err := m.AsFloat64()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Quote(strconv.FormatFloat(score, 'f', -1, 64))
}
