package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// limit is how long a test waits for what must happen. It only passes when a test fails.
const limit = 60 * time.Second

// open opens a store, and closes it at the end of the test.
func open(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = newPrefix()
	}
	if o.Logger == nil {
		o.Logger = quiet()
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// do sends a command to a server.
func do(t testing.TB, server *testenv.RedisServer, command ...string) rueidis.RedisResult {
	t.Helper()
	c := newClient(t, server)
	defer c.Close()
	return c.Do(context.Background(), c.B().Arbitrary(command[0]).Args(command[1:]...).Build())
}

// must sends a command that must succeed.
func must(t testing.TB, server *testenv.RedisServer, command ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := do(t, server, command...).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", command, err)
	}
	return m
}

// calls returns how often a server has run a command.
func calls(t testing.TB, server *testenv.RedisServer, command string) (n int) {
	t.Helper()
	info := must(t, server, "INFO", "commandstats")
	text, err := info.ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "cmdstat_"+command+":calls=")
	digits, _, _ := strings.Cut(rest, ",")
	n, _ = strconv.Atoi(digits) // of none there is no line
	return n
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain until %s", limit, what)
		}
	}
}

func message(queue, name, id string) store.Message {
	return store.Message{Key: store.Key{Queue: queue, Tenant: "acme", Name: name}, ID: id, Route: "order", Body: []byte("body of " + id)}
}

func request(queue string, wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: queue, Routes: []string{"order"}, Max: 10, Lease: time.Minute, Wait: wait}
}

func put(t testing.TB, s store.Store, messages ...store.Message) {
	t.Helper()
	if err := s.Commit(t.Context(), &store.Tx{Put: messages}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func claim(t testing.TB, s store.Store, req store.ClaimRequest) []store.Claim {
	t.Helper()
	claims, err := s.Claim(t.Context(), req)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return claims
}

// waitsFor starts a claim, and returns when it waits.
func waitsFor(t testing.TB, s *Store, req store.ClaimRequest) (result func() []store.Claim) {
	t.Helper()
	before := s.waiting()
	done := make(chan struct{})
	var claims []store.Claim
	var err error
	go func() {
		defer close(done)
		claims, err = s.Claim(context.Background(), req)
	}()
	eventually(t, "the claim waits", func() bool { return s.waiting() > before })
	return func() []store.Claim {
		t.Helper()
		select {
		case <-done:
		case <-time.After(limit):
			t.Fatal("the claim does not return")
		}
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		return claims
	}
}

// verifies checks that the store finds nothing wrong with itself.
func verifies(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Verify(context.Background(), func(problem string) { t.Errorf("verify: %s", problem) }); err != nil {
		t.Fatalf("verify: %v", err)
	}
}

// ledger is a load whose commits are each of four parts that belong together, and that
// knows which of them were acknowledged: an entry, a message, a record, and a message that
// is consumed.
type ledger struct {
	s        store.Store
	accounts int
	spread   bool // each account has a tenant of its own

	mu    sync.Mutex
	acked map[string]int // how many entries each account has at the least
	stop  chan struct{}
	load  sync.WaitGroup
	total int
	lost  int   // commits with an unknown outcome
	last  error // that of the latest of them
}

func newLedger(s store.Store, accounts int) *ledger { return startLedger(s, accounts, false) }

func startLedger(s store.Store, accounts int, spread bool) *ledger {
	l := &ledger{s: s, accounts: accounts, spread: spread, acked: map[string]int{}, stop: make(chan struct{})}
	for i := range accounts {
		name := fmt.Sprintf("account-%d", i)
		l.load.Go(func() { l.run(name) })
	}
	return l
}

func (l *ledger) tenant(name string) string {
	if l.spread {
		return "tenant of " + name
	}
	return "acme"
}

func (l *ledger) account(name string) store.Key {
	return store.Key{Queue: "accounts", Tenant: l.tenant(name), Name: name}
}

func (l *ledger) record(name string) store.RecordKey {
	return store.RecordKey{Kind: "balance", Tenant: l.tenant(name), ID: name}
}

func (l *ledger) statement(name, id string) store.Message {
	m := message("statements", name, id)
	m.Key.Tenant = l.tenant(name)
	return m
}

// run makes one commit after another, and determines the outcome of one that failed. What a
// conflict shows counts as acknowledged with the next commit only: replicas may not have it yet.
func (l *ledger) run(name string) {
	for n := 0; ; {
		select {
		case <-l.stop:
			return
		default:
		}
		err := l.s.Commit(context.Background(), l.tx(name, n))
		l.mu.Lock()
		l.total++
		switch {
		case err == nil:
			n++
			l.acked[name] = n
		case errors.Is(err, store.ErrConflict): // one that failed has happened, or was undone
			l.mu.Unlock()
			if page, err := l.s.ReadLog(context.Background(), l.account(name), n); err == nil {
				n = page.Length
			}
			continue
		default:
			l.lost++
			l.last = err
		}
		l.mu.Unlock()
	}
}

func (l *ledger) tx(name string, n int) *store.Tx {
	key := l.account(name)
	return &store.Tx{
		Append: []store.Append{{Key: key, At: n, Entries: [][]byte{fmt.Appendf(nil, "entry %d", n)}}},
		Put:    []store.Message{l.statement(name, fmt.Sprint(n))},
		PutRecords: []store.PutRecord{{
			Record: store.Record{Key: l.record(name), Status: fmt.Sprint(n % 3), Body: []byte(fmt.Sprint(n))},
			Expect: int64(n),
		}},
	}
}

func (l *ledger) commits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, acked := range l.acked {
		n += acked
	}
	return n
}

// goesOn waits until each account has some more commits.
func (l *ledger) goesOn(t testing.TB, more int) {
	t.Helper()
	l.mu.Lock()
	before := maps.Clone(l.acked)
	l.mu.Unlock()
	eventually(t, "each account has more commits", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range l.accounts {
			if name := fmt.Sprintf("account-%d", i); l.acked[name] < before[name]+more {
				return false
			}
		}
		return true
	})
}

// end ends the load, and checks that nothing acknowledged is lost and nothing is half done.
func (l *ledger) end(t testing.TB, s *Store) {
	t.Helper()
	close(l.stop)
	l.load.Wait()
	for i := range l.accounts {
		name := fmt.Sprintf("account-%d", i)
		l.check(t, s, name)
	}
	verifies(t, s)
	t.Logf("%d commits, %d with an unknown outcome, the latest: %v", l.total, l.lost, l.last)
}

func (l *ledger) check(t testing.TB, s *Store, name string) {
	t.Helper()
	n := 0
	for entry, err := range store.Entries(context.Background(), s, l.account(name), 0) {
		if err != nil {
			t.Fatalf("read log: %v", err)
		}
		if want := fmt.Sprintf("entry %d", n); string(entry) != want {
			t.Fatalf("%s has %q, want %q", name, entry, want)
		}
		n++
	}
	if n < l.acked[name] {
		t.Errorf("%s has %d entries, and %d were acknowledged", name, n, l.acked[name])
	}
	r, err := s.Get(context.Background(), l.record(name))
	if n > 0 && (err != nil || r.Version != int64(n)) {
		t.Errorf("%s has %d entries, and its record version %d, error %v", name, n, r.Version, err)
	}
	pending, err := s.Pending(context.Background(), l.statement(name, "x").Key, 0)
	if err != nil || len(pending) != min(n, store.MaxPage) {
		t.Errorf("%s has %d entries and %d messages, error %v", name, n, len(pending), err)
	}
}

// texts returns all texts in an answer, quoted, however deep they are.
func texts(t testing.TB, r rueidis.RedisResult) (list []string) {
	t.Helper()
	m, err := r.ToMessage()
	if err != nil {
		t.Fatal(err)
	}
	return flatten(t, m)
}

func flatten(t testing.TB, m rueidis.RedisMessage) (list []string) {
	t.Helper()
	if m.IsMap() || m.IsArray() {
		items, err := m.ToArray()
		if m.IsMap() {
			pairs, mapErr := m.AsStrMap()
			for name, value := range pairs {
				list = append(list, strconv.Quote(name), strconv.Quote(value))
			}
			if mapErr != nil {
				t.Fatal(mapErr)
			}
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range items {
			list = append(list, flatten(t, items[i])...)
		}
		return list
	}
	if n, err := m.ToFloat64(); err == nil {
		return []string{strconv.Quote(strconv.FormatFloat(n, 'f', -1, 64))}
	}
	text, err := m.ToString()
	if err != nil {
		t.Fatal(err)
	}
	return []string{strconv.Quote(text)}
}
