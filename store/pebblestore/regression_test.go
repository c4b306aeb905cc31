package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// openOn opens a store, and closes it when the test ends.
func openOn(t *testing.T, fs vfs.FS, clock base.Clock, lim limits) *Store {
	t.Helper()
	s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small, limits: &lim})
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

// commitTo commits, and fails the test if it cannot.
func commitTo(t *testing.T, s *Store, tx *store.Tx) {
	t.Helper()
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// claimFrom claims, and fails the test if it is not so many keys.
func claimFrom(t *testing.T, s *Store, req store.ClaimRequest, want int) []store.Claim {
	t.Helper()
	claims, err := s.Claim(t.Context(), req)
	if err != nil || len(claims) != want {
		t.Fatalf("claimed %d keys, %v, want %d", len(claims), err, want)
	}
	return claims
}

// upTo returns a request for up to so many keys of the queue turns.
func upTo(limit int, lease, wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: turns, Routes: []string{"serve"}, Max: limit, Lease: lease, Wait: wait}
}

// claimed is what a Claim call has returned.
type claimed struct {
	claims []store.Claim
	err    error
}

// startClaim calls Claim in a goroutine.
func startClaim(t *testing.T, s *Store, req store.ClaimRequest) <-chan claimed {
	t.Helper()
	ctx, done := t.Context(), make(chan claimed, 1)
	go func() {
		claims, err := s.Claim(ctx, req)
		done <- claimed{claims, err}
	}()
	return done
}

// startCommit calls Commit in a goroutine.
func startCommit(t *testing.T, s *Store, tx *store.Tx) <-chan error {
	t.Helper()
	ctx, done := t.Context(), make(chan error, 1)
	go func() { done <- s.Commit(ctx, tx) }()
	return done
}

// soon returns what comes out of a channel.
func soon[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		t.Fatalf("%s: it does not happen", what)
	}
	return got
}

// served returns what a call that waited has got, which must be one key.
func served(t *testing.T, what string, from <-chan claimed) store.Claim {
	t.Helper()
	got := soon(t, what, from)
	if got.err != nil || len(got.claims) != 1 {
		t.Fatalf("%s: %d keys, %v, want one", what, len(got.claims), got.err)
	}
	return got.claims[0]
}

// holds waits for something about the store to be true.
func (s *Store) holds(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		s.mu.Lock()
		ok := is()
		s.mu.Unlock()
		if ok {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: it does not happen", what)
		}
		runtime.Gosched()
	}
}

// calls waits until so many Claim calls wait.
func (s *Store) calls(t *testing.T, n int) {
	t.Helper()
	s.holds(t, fmt.Sprintf("%d calls wait", n), func() bool { return s.waits.Waiting() == n })
}

// leased waits until so many keys are leased.
func (s *Store) leased(t *testing.T, n int) {
	t.Helper()
	s.holds(t, fmt.Sprintf("%d keys are leased", n), func() bool { return s.leases.len() == n })
}

// underWay waits until changes of so many keys are under way. As long as nothing is
// synced, the first two groups are applied, and later commits are in the open one.
func (s *Store) underWay(t *testing.T, n int) {
	t.Helper()
	s.holds(t, fmt.Sprintf("changes of %d keys are under way", n), func() bool {
		keys := 0
		for i, g := range s.inFlight {
			keys += len(g.keys)
			if i < 2 && g.used && !g.applied {
				return false
			}
		}
		return keys == n
	})
}

// letOthersRun gives other runnable goroutines the time to run.
func letOthersRun() {
	for range 10_000 {
		runtime.Gosched()
	}
}

// hold makes syncs of the log wait. The test ends with syncs that do not wait.
func hold(t *testing.T, g *gate) (open func()) {
	t.Helper()
	open = sync.OnceFunc(g.close(func(path string) bool { return strings.HasSuffix(path, ".log") }))
	t.Cleanup(open)
	return open
}

// lateClock is a clock whose timers go off when they are told to, which may be late.
type lateClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*lateTimer]struct{}
}

type lateTimer struct {
	at time.Time
	f  func()
}

func newLateClock() *lateClock {
	return &lateClock{now: start, timers: map[*lateTimer]struct{}{}}
}

// Now returns the time that the clock shows.
func (c *lateClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc sets a timer.
func (c *lateClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &lateTimer{c.now.Add(d), f}
	c.timers[x] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.timers[x]
		delete(c.timers, x)
		return ok
	}
}

// move makes time pass. No timer goes off.
func (c *lateClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fire makes the timers go off that are due.
func (c *lateClock) fire() {
	c.mu.Lock()
	var due []func()
	for x := range c.timers {
		if !x.at.After(c.now) {
			delete(c.timers, x)
			due = append(due, x.f)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// unrouted is a message without a route that expires after 10 ms.
func unrouted() store.Message {
	return store.Message{Key: store.Key{Queue: turns, Name: "unrouted"}, ID: "x", TTL: 10 * time.Millisecond}
}

// releaseLate releases a key to a call that waits for it when a message without a
// route has just expired and its timer has not gone off yet. It returns what the call
// that waited has got.
func releaseLate(t *testing.T, s *Store, clock *lateClock) store.Claim {
	t.Helper()
	commitTo(t, s, &store.Tx{Put: []store.Message{unrouted(), message(0, 0, time.Time{})}})
	first := claimFrom(t, s, upTo(1, time.Hour, 0), 1)
	waits := startClaim(t, s, upTo(1, time.Hour, time.Hour))
	s.calls(t, 1)
	clock.move(20 * time.Millisecond)
	if err := s.Release(t.Context(), store.Release{Lease: first[0].Lease()}); err != nil {
		t.Fatalf("release: %v", err)
	}
	return served(t, "the call that waits gets the key", waits)
}

// TestAReleaseWhileMessagesExpireKeepsThePinsInBalance is about the group that a
// release may add to: a key that is unpinned once too often is forgotten while it is
// in use, and one that is not unpinned stays in memory for good.
func TestAReleaseWhileMessagesExpireKeepsThePinsInBalance(t *testing.T) {
	t.Parallel()
	clock := newLateClock()
	s := openOn(t, vfs.NewMem(), clock, defaultLimits)
	c := releaseLate(t, s, clock)
	commitTo(t, s, &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}})
	clock.fire()
	page, err := s.List(t.Context(), store.Query{Kind: store.KindQuarantine})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("%d messages are in quarantine, %v, want the one that has expired", len(page.Records), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys.byKey {
		if e.pins != 0 {
			t.Errorf("%v has %d pins and nothing is under way, want 0", key, e.pins)
		}
	}
	idle := 0
	for e := s.keys.idle.next; e != &s.keys.idle && idle <= len(s.keys.byKey); e = e.next {
		idle++
	}
	if idle != s.keys.count || idle != len(s.keys.byKey) {
		t.Errorf("%d keys are in the ring of those that are idle, which counts %d, and %d are in memory", idle, s.keys.count, len(s.keys.byKey))
	}
}

// TestAKeyWithAChangeUnderWayIsNotForgottenAfterARelease fills the cache of keys while
// a message is consumed: a state that is evicted then finds the message on disk again.
func TestAKeyWithAChangeUnderWayIsNotForgottenAfterARelease(t *testing.T) {
	t.Parallel()
	clock, g, lim := newLateClock(), newGate(), defaultLimits
	lim.keys = 4
	s := openOn(t, g, clock, lim)
	c := releaseLate(t, s, clock)
	commitTo(t, s, &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}})
	commitTo(t, s, &store.Tx{Put: []store.Message{message(0, 1, time.Time{})}})
	c = claimFrom(t, s, upTo(1, time.Hour, 0), 1)[0]
	if id := c.Messages[0].ID; id != "m000001" {
		t.Errorf("%s was delivered, want the message that was put last", id)
	}
	open := hold(t, g)
	var commits []<-chan error
	commit := func(tx *store.Tx) {
		t.Helper()
		commits = append(commits, startCommit(t, s, tx))
		s.underWay(t, len(commits))
	}
	for i := range 3 {
		commit(&store.Tx{Put: []store.Message{message(50+i, 1, time.Time{})}})
	}
	commit(&store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}})
	for i := range 10 { // these change nothing, and bring keys into memory
		tx := &store.Tx{Append: []store.Append{{Key: message(100+i, 0, time.Time{}).Key, At: 7, Entries: [][]byte{nil}}}}
		if err := s.Commit(t.Context(), tx); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("commit: %v, want %v", err, store.ErrConflict)
		}
	}
	claimFrom(t, s, upTo(10, time.Hour, 0), 0)
	commit(&store.Tx{Put: []store.Message{message(0, 2, time.Time{})}})
	s.mu.Lock()
	if n := s.keys.get(c.Key).value.count; n != 1 {
		t.Errorf("%v has %d messages, want the one that was put last", c.Key, n)
	}
	s.mu.Unlock()
	open()
	for _, done := range commits {
		if err := soon(t, "a commit ends", done); err != nil {
			t.Errorf("commit: %v", err)
		}
	}
	var got []string
	for _, c := range claimFrom(t, s, upTo(10, time.Hour, 0), 4) {
		for _, m := range c.Messages {
			got = append(got, c.Key.Name+" "+m.ID)
		}
	}
	if want := []string{"key-50 m000001", "key-51 m000001", "key-52 m000001", "key-0 m000002"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

// lateContext ends after its error was asked for so many times.
type lateContext struct {
	context.Context
	left int
}

// Err returns an error once the context has ended.
func (c *lateContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestAClaimWhoseContextEndsLeavesNoLease ends the context when the key is leased and
// its body is not read yet: a lease without a holder would lock the key until
// it ends.
func TestAClaimWhoseContextEndsLeavesNoLease(t *testing.T) {
	t.Parallel()
	for asked := range 4 {
		h := newHouse(t, tiny)
		m := message(0, 0, time.Time{})
		m.Body = []byte("longer than what is kept in memory")
		h.commit(&store.Tx{Put: []store.Message{m}})
		claims, err := h.Claim(&lateContext{t.Context(), asked}, upTo(1, 24*time.Hour, 0))
		if (err == nil) != (len(claims) == 1) {
			t.Errorf("asked %d times: claimed %d keys, %v", asked, len(claims), err)
		}
		stats, err := h.Stats(t.Context())
		if err != nil || stats.Leases != len(claims) {
			t.Errorf("asked %d times: %d keys are leased, %v, and %d were handed over", asked, stats.Leases, err, len(claims))
		}
	}
}

// TestAClaimOutlastsAChangeOfTheRouteBeforeItsBodiesAreRead moves a message to another
// partition between the lease and the read of the body, where the body is no more.
func TestAClaimOutlastsAChangeOfTheRouteBeforeItsBodiesAreRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t, tiny)
	m := message(0, 0, time.Time{})
	m.Body = []byte("longer than what is kept in memory")
	h.commit(&store.Tx{Put: []store.Message{m}})
	req := upTo(1, 24*time.Hour, 0)
	now, err := h.lock("claim")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := h.Store.claim(h.queue(turns), &req, now)
	h.mu.Unlock()
	if err != nil || len(taken.bodies) != 1 {
		t.Fatalf("%d bodies are left to read, %v, want 1", len(taken.bodies), err)
	}
	other := message(0, 1, time.Time{})
	other.Route = "other"
	h.commit(&store.Tx{Put: []store.Message{other}})
	claims, err := h.deliver(taken)
	if err != nil || len(claims) != 1 || len(claims[0].Messages) != 1 || string(claims[0].Messages[0].Body) != string(m.Body) {
		t.Fatalf("claimed %v, %v, want the message that was leased", claims, err)
	}
	h.finish(claims)
	left, err := h.Pending(t.Context(), m.Key, 0)
	if err != nil || len(left) != 1 || left[0].ID != other.ID {
		t.Errorf("pending are %v, %v, want what was put last", left, err)
	}
}

// TestAClaimShowsOnlyWhatIsDurable claims a key whose last change is not synced yet: a
// power loss could take back what the caller was shown.
func TestAClaimShowsOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	key := message(0, 0, time.Time{}).Key
	entry := [][]byte{[]byte("entry")}
	for _, tt := range []struct {
		name   string
		tx     func(l store.Lease) *store.Tx
		length int
		id     string
	}{
		{"finish", func(l store.Lease) *store.Tx { return &store.Tx{Finish: []store.Finish{{Lease: l}}} }, 1, "m000001"},
		{"finish and append", func(l store.Lease) *store.Tx {
			return &store.Tx{Finish: []store.Finish{{Lease: l}}, Append: []store.Append{{Key: key, At: 1, Entries: entry}}}
		}, 2, "m000001"},
		{"append", func(store.Lease) *store.Tx {
			return &store.Tx{Append: []store.Append{{Key: key, At: 1, Entries: entry}}}
		}, 2, "m000000"},
		{"trim", func(store.Lease) *store.Tx { return &store.Tx{Trim: []store.Trim{{Key: key, Before: 1}}} }, 1, "m000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			s := openOn(t, g, base.NewManual(start), defaultLimits)
			commitTo(t, s, &store.Tx{
				Put:    []store.Message{message(0, 0, time.Time{}), message(0, 1, time.Time{})},
				Append: []store.Append{{Key: key, Entries: entry}},
			})
			req := upTo(1, time.Hour, 0)
			req.MaxMessages = 1
			first := claimFrom(t, s, req, 1)[0]
			tx := tt.tx(first.Lease())
			if len(tx.Finish) == 0 {
				if err := s.Release(t.Context(), store.Release{Lease: first.Lease()}); err != nil {
					t.Fatal(err)
				}
			}
			var held atomic.Bool
			held.Store(true)
			open := hold(t, g)
			commit := startCommit(t, s, tx)
			s.underWay(t, 1)
			early, claim := make(chan bool, 1), make(chan claimed, 1)
			go func() {
				claims, err := s.Claim(t.Context(), req)
				early <- held.Load()
				claim <- claimed{claims, err}
			}()
			s.leased(t, 1)
			letOthersRun()
			held.Store(false)
			open()
			if soon(t, "the claim ends", early) {
				t.Error("a key was handed over while its last change was not durable")
			}
			c := served(t, "the key is handed over", claim)
			if c.LogLength != tt.length || len(c.Messages) != 1 || c.Messages[0].ID != tt.id {
				t.Errorf("claimed %v with a log of length %d, want %s and %d", c.Messages, c.LogLength, tt.id, tt.length)
			}
			if err := soon(t, "the commit ends", commit); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
	}
}

// TestAMessageWaitsForAnEarlierOneOfItsKeyThatIsNotDurable claims a key of which a
// message is on disk, and another, which comes first, is not: the order within a key
// is a promise.
func TestAMessageWaitsForAnEarlierOneOfItsKeyThatIsNotDurable(t *testing.T) {
	t.Parallel()
	g, clock := newGate(), base.NewManual(start)
	s := openOn(t, g, clock, defaultLimits)
	commitTo(t, s, &store.Tx{Put: []store.Message{message(0, 10, start.Add(10*time.Millisecond))}})
	clock.Advance(9 * time.Millisecond)
	open := hold(t, g)
	commit := startCommit(t, s, &store.Tx{Put: []store.Message{message(0, 9, time.Time{})}})
	s.underWay(t, 1)
	clock.Advance(9 * time.Millisecond)
	claimFrom(t, s, upTo(1, time.Hour, 0), 0)
	open()
	if err := soon(t, "the commit ends", commit); err != nil {
		t.Fatalf("commit: %v", err)
	}
	c := claimFrom(t, s, upTo(1, time.Hour, 0), 1)[0]
	if got := ids(c); !slices.Equal(got, []string{"m000009", "m000010"}) {
		t.Errorf("delivered %q, want the one that is visible first to come first", got)
	}
}
