package redisstore

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// TestSettingsThatChangeAreNoticed while the store is open, each change once.
func TestSettingsThatChangeAreNoticed(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	var log bytes.Buffer
	s := open(t, Options{Addresses: []string{server.Addr}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	want := func(lines ...string) {
		t.Helper()
		s.inspect(t.Context())
		s.inspect(t.Context())
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		log.Reset()
		if len(lines) == 0 && got[0] == "" {
			return
		}
		if len(got) != len(lines) {
			t.Fatalf("logged %q, want %q", got, lines)
		}
		for i := range lines {
			if !strings.Contains(got[i], lines[i]) {
				t.Errorf("logged %q, want %q", got[i], lines[i])
			}
		}
	}
	want()
	must(t, server, "CONFIG", "SET", "appendfsync", "everysec")
	want("appendfsync is everysec")
	must(t, server, "CONFIG", "SET", "appendfsync", "always")
	want("server settings durable again")

	ahead := time.Now().Add(8 * time.Second)
	must(t, server, "HSET", s.prefix+"meta", "state", string(binary.BigEndian.AppendUint64(nil, uint64(ahead.UnixMilli())))+strings.Repeat("\x00", 24))
	want("clock of the server is behind the store's time")
}

// TestClockMark is the latest time that is stored; a reset stores what the clock shows.
func TestClockMark(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	put(t, s, message("turns", "order-1", "a"))
	for _, lead := range []time.Duration{8 * time.Second, 24 * time.Hour} {
		ahead := time.Now().Add(lead)
		must(t, server, "HSET", s.prefix+"meta", "state", string(binary.BigEndian.AppendUint64(nil, uint64(ahead.UnixMilli())))+strings.Repeat("\x00", 24))
		for _, look := range []func() (store.ClockMark, error){
			func() (store.ClockMark, error) { return s.ClockMark(t.Context()) },
			func() (store.ClockMark, error) { return s.ResetClockMark(t.Context()) },
		} {
			m, err := look()
			if err != nil || m.Mark.UnixMilli() != ahead.UnixMilli() || m.Lead() > lead || m.Lead() < lead-time.Minute {
				t.Errorf("the mark is %+v, %v, want %v", m, err, ahead)
			}
			if m.Counts() != (lead < store.MaxClockLead) {
				t.Errorf("a mark that is ahead by %v counts: %v", lead, m.Counts())
			}
		}
		if m, err := s.ClockMark(t.Context()); err != nil || m.Lead() != 0 {
			t.Errorf("after the reset it is %+v, %v", m, err)
		}
	}
}
