package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// watched is tables that count the calls of the core, and fail where a test says so. The hooks:
//
//	hintsDown      Hinted is false, and nothing is announced: hints do not arrive, and it is known
//	hintsLost      announcements are dropped, while Hinted is true
//	expiredHidden  Expired finds nothing
//	readsFail      Expired, Record and Versions fail with errBroken
//	decideTwice    Update calls decide twice, and writes the second changes
//	before         called before an update; if it fails, nothing is changed
//	failDecided    the error of updates that are decided and not written; onFailDecided is called
//	               before it is returned
//	after          called after an update was written; if it fails, the outcome is unknown
//	onPicked, onLooked, onExpired
//	               called with the result of a query, before the core knows it
type watched struct {
	*tables
	picks, looks, updates atomic.Int64
	hintsDown             atomic.Bool // no hints arrive, and it is known
	hintsLost             atomic.Bool // hints are lost
	expiredHidden         atomic.Bool // what has expired is not found
	readsFail             atomic.Bool // what has expired cannot be looked for
	decideTwice           atomic.Bool // updates are decided twice, and written once

	mu            sync.Mutex
	before        func(*ReadSet) error // of an update; nothing is changed if it fails
	failDecided   error                // of updates that are decided and not written
	onFailDecided func()
	after         func() error       // of one that was written
	onLooked      func()             // called before anybody knows what was seen
	onExpired     func()             // the same of what has expired
	onPicked      func(*LeaseResult) // called with what was picked, before anybody knows of it

	reads, asked atomic.Int64 // of records one by one, and of versions
}

func (d *watched) LeaseReady(ctx context.Context, p *LeaseRequest) (*LeaseResult, error) {
	d.picks.Add(1)
	got, err := d.tables.LeaseReady(ctx, p)
	d.mu.Lock()
	picked := d.onPicked
	d.mu.Unlock()
	if picked != nil && err == nil {
		picked(got)
	}
	return got, err
}

func (d *watched) NextDue(ctx context.Context, partitions []int64) (int64, []int64, error) {
	d.looks.Add(1)
	now, at, err := d.tables.NextDue(ctx, partitions)
	d.mu.Lock()
	looked := d.onLooked
	d.mu.Unlock()
	if looked != nil {
		looked()
	}
	return now, at, err
}

func (d *watched) Expired(ctx context.Context, queue string, limit int) ([]Ref, []store.Key, error) {
	if d.expiredHidden.Load() {
		return nil, nil, nil
	}
	if d.readsFail.Load() {
		return nil, nil, errBroken
	}
	refs, keys, err := d.tables.Expired(ctx, queue, limit)
	d.mu.Lock()
	expired := d.onExpired
	d.mu.Unlock()
	if expired != nil {
		expired()
	}
	return refs, keys, err
}

func (d *watched) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	d.reads.Add(1)
	if d.readsFail.Load() {
		return store.Record{}, errBroken
	}
	return d.tables.Record(ctx, key)
}

func (d *watched) Versions(ctx context.Context, keys []store.RecordKey) ([]int64, error) {
	d.asked.Add(1)
	if d.readsFail.Load() {
		return nil, errBroken
	}
	return d.tables.Versions(ctx, keys)
}

func (d *watched) Update(ctx context.Context, n *ReadSet, decide func(int64, *State) *Changes) error {
	d.updates.Add(1)
	d.mu.Lock()
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		if err := before(n); err != nil {
			return err
		}
	}
	d.mu.Lock()
	rolledBack, onUndo := d.failDecided, d.onFailDecided
	d.mu.Unlock()
	if rolledBack != nil {
		_ = d.tables.Update(ctx, n, func(now int64, s *State) *Changes {
			decide(now, s)
			return &Changes{}
		})
		if onUndo != nil {
			onUndo()
		}
		return rolledBack
	}
	err := d.tables.Update(ctx, n, func(now int64, s *State) *Changes {
		if d.decideTwice.Load() {
			decide(now, s)
		}
		return decide(now, s)
	})
	if err != nil {
		return err
	}
	if after != nil {
		return after()
	}
	return nil
}

func (d *watched) Hinted() bool { return !d.hintsDown.Load() }

func (d *watched) Announce(a *Announcement) {
	if !d.hintsDown.Load() && !d.hintsLost.Load() {
		d.tables.Announce(a)
	}
}

var errBroken = errors.New("broken")

// fail makes updates fail.
func (d *watched) fail(before func(*ReadSet) error, after func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = before, after
}

// undo makes updates fail after they were decided.
func (d *watched) failDecidedWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failDecided = err
}

// onUndo has a function called before such an update fails.
func (d *watched) beforeDecidedFail(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFailDecided = f
}

// setBack sets the clock of the database back. It does not run backwards: it stands still
// until it has caught up.
func (d *watched) setBack(by time.Duration) {
	d.tables.mu.Lock()
	defer d.tables.mu.Unlock()
	d.clock = skewed{d.clock, -by}
}

// skewed is a clock that is ahead of another one.
type skewed struct {
	base.Clock
	by time.Duration
}

func (c skewed) Now() time.Time { return c.Clock.Now().Add(c.by) }

// onLook has functions called once with the next look, and with the next that has expired.
func (d *watched) onLook(looked, expired func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onLooked, d.onExpired = looked, expired
}

// onPick has a function called with what is picked.
func (d *watched) onPick(f func(*LeaseResult)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onPicked = f
}

// house is one database and the frames on it, in virtual time.
type fixture struct {
	*testing.T
	db *watched
}

func withFixture(t *testing.T, f func(h *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(&fixture{t, &watched{tables: newTables(base.System{})}}) })
}

func (h *fixture) open() *Core {
	f := New(Options{Writers: 2})
	h.db.frames = append(h.db.frames, f)
	h.db.shared.Store(len(h.db.frames) > 1)
	f.Start(h.db)
	h.Cleanup(func() { f.CloseCore() })
	return f
}

func message(name string) store.Message {
	return store.Message{Key: store.Key{Queue: "turns", Tenant: "acme", Name: name}, ID: "1", Route: "order", Body: []byte(name)}
}

func (h *fixture) put(f *Core, name string, options ...func(*store.Message)) {
	h.Helper()
	if err := h.try(f, name, options...); err != nil {
		h.Error(err)
	}
}

func (h *fixture) try(f *Core, name string, options ...func(*store.Message)) error {
	m := message(name)
	for _, o := range options {
		o(&m)
	}
	return f.Commit(h.Context(), &store.Tx{Put: []store.Message{m}})
}

// await begins to wait for a record. What it returns returns the record, or nil if it is
// still waited for.
func (h *fixture) await(f *Core, key store.RecordKey, after int64) func() *store.Record {
	var found *store.Record
	go func() {
		if r, err := f.Await(h.Context(), key, after); err == nil {
			found = &r
		}
	}()
	synctest.Wait()
	return func() *store.Record {
		synctest.Wait()
		return found
	}
}

func request(wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 10, Lease: time.Minute, Wait: wait}
}

// claiming is a Claim call that waits in a goroutine of its own.
type claiming struct {
	claims []store.Claim
	err    error
	took   time.Duration
	done   bool
}

// claim begins to wait, and returns when it does.
func (h *fixture) claim(ctx context.Context, f *Core, wait time.Duration) *claiming {
	c := &claiming{}
	go func() {
		begun := time.Now()
		c.claims, c.err = f.Claim(ctx, request(wait))
		c.took, c.done = time.Since(begun), true
	}()
	synctest.Wait()
	return c
}

// got checks that a call has returned, with keys of these names.
func (h *fixture) got(c *claiming, names ...string) {
	h.Helper()
	synctest.Wait()
	if !c.done || c.err != nil || len(c.claims) != len(names) {
		h.Fatalf("returned %v, with %d claims and error %v; want %v", c.done, len(c.claims), c.err, names)
	}
	for i, name := range names {
		if c.claims[i].Key.Name != name || c.claims[i].Messages[0].Attempt != 1 {
			h.Errorf("claim %d is of %v, attempt %d, want %s and 1", i, c.claims[i].Key, c.claims[i].Attempt(), name)
		}
	}
}

func (h *fixture) same(what string, got, want int64) {
	h.Helper()
	if got != want {
		h.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func TestWhatIsPutForWhoWaitsIsNotLookedFor(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		picks := h.db.picks.Load()
		for i := range 5 {
			h.put(f, fmt.Sprint("k", i))
			h.got(c, fmt.Sprint("k", i))
			c = h.claim(h.Context(), f, time.Hour)
		}
		h.same("picks", h.db.picks.Load()-picks, 0)
	})
}

func TestWhatFallsDueIsLookedForOnce(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		for i := range 50 {
			h.put(f, fmt.Sprint("k", i), func(m *store.Message) { m.VisibleAt = time.Now().Add(time.Duration(i+1) * time.Hour) })
		}
		c := h.claim(h.Context(), f, 100*time.Hour)
		picks := h.db.picks.Load()
		<-time.After(time.Hour)
		h.got(c, "k0")
		if c.took != time.Hour {
			t.Errorf("it took %v", c.took)
		}
		h.same("picks", h.db.picks.Load()-picks, 1)
	})
}

func TestWhoWaitsAsksLittle(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", func(m *store.Message) { m.VisibleAt = time.Now().Add(100 * time.Hour) })
		h.claim(h.Context(), f, 50*time.Hour)
		picks, looks := h.db.picks.Load(), h.db.looks.Load()
		<-time.After(time.Hour)
		h.same("picks in an hour", h.db.picks.Load()-picks, 0)
		if n := h.db.looks.Load() - looks; n > 360 {
			t.Errorf("%d looks in an hour", n)
		}
	})
}

func TestGroupThatFailsTakesBackWhatItHanded(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		bad := fmt.Errorf("cannot write: %w", ErrRolledBack)
		h.db.failDecidedWith(bad) // decided, and not written
		if err := h.try(f, "x"); !errors.Is(err, bad) {
			t.Fatalf("commit: %v", err)
		}
		synctest.Wait()
		if c.done {
			t.Fatalf("claimed %v by a commit that failed", c.claims)
		}
		h.db.failDecidedWith(nil)
		h.put(f, "k")
		h.got(c, "k")
	})
}

func TestWhatMayHaveBeenWrittenIsLookedFor(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		key := store.RecordKey{Kind: "instance", ID: "1"}
		found := h.await(f, key, 0)
		bad := errors.New("connection lost")
		h.db.fail(nil, func() error { // written, with a lease, and not known to be
			h.db.fail(nil, nil)
			return bad
		})
		tx := &store.Tx{Put: []store.Message{message("k")}, PutRecords: []store.PutRecord{{Record: store.Record{Key: key}}}}
		if err := f.Commit(h.Context(), tx); !errors.Is(err, bad) {
			t.Fatalf("commit: %v", err)
		}
		h.got(c, "k") // at once, and as its first attempt
		h.version("who awaits it", found(), 1)

		h.putRecord(f, key)
		c = h.claim(h.Context(), f, time.Hour)
		h.db.fail(nil, func() error {
			h.db.fail(nil, nil)
			return bad
		})
		m := message("l")
		m.VisibleAt = time.Now().Add(time.Second)
		tx.Put, tx.PutRecords[0].Expect = []store.Message{m}, 2
		if err := f.Commit(h.Context(), tx); !errors.Is(err, bad) {
			t.Fatalf("commit: %v", err)
		}
		h.version("who awaits it then", h.await(f, key, 2)(), 3)
		<-time.After(time.Second)
		h.got(c, "l") // when it is due
	})
}

func TestGroupIsTriedAgain(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		tries := 0
		h.db.fail(func(*ReadSet) error {
			if tries++; tries < 4 {
				return fmt.Errorf("deadlock: %w", ErrRetry)
			}
			return nil
		}, nil)
		h.put(f, "k")
		h.got(c, "k")
		h.same("tries", int64(tries), 4)
	})
}

// TestOneThatOthersAlwaysComeInBetweenOf fails alone, after pauses.
func TestOneThatOthersAlwaysComeInBetweenOf(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		hot := IDOf(message("hot").Key)
		tries := 0
		h.db.fail(func(n *ReadSet) error {
			if slices.Contains(n.Keys, hot) {
				tries++
				return fmt.Errorf("deadlock: %w", ErrRetry)
			}
			return nil
		}, nil)
		var calls []*call
		for i := range 40 {
			m := message(fmt.Sprint("k", i))
			if i == 17 {
				m = message("hot")
			}
			calls = append(calls, newCall(h.Context(), operation{tx: &store.Tx{Put: []store.Message{m}}}, 0))
		}
		began := time.Now()
		f.run(calls, &trial{began: f.clock.Now()})
		for i, c := range calls {
			if errors.Is(c.err, ErrRetry) != (i == 17) {
				t.Errorf("commit %d: %v", i, c.err)
			}
		}
		if took := time.Since(began); took < time.Duration(tries)*retryPause/4 || took > time.Duration(tries)*retryPause {
			t.Errorf("%d tries took %v", tries, took)
		}
	})
}

// TestGroupThatIsDecidedTwice hands out what it decided last, once.
func TestGroupThatIsDecidedTwice(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.db.decideTwice.Store(true)
		c := h.claim(h.Context(), f, time.Hour)
		h.put(f, "k")
		h.got(c, "k")
		if row := h.db.keys[IDOf(message("k").Key)]; row.Token != string(c.claims[0].Token) {
			t.Errorf("the row has the token %q, the claim %q", row.Token, c.claims[0].Token)
		}
		h.nothing(f)
	})
}

func TestOneThatCannotBeWrittenDoesNotFailItsNeighbours(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		poison := IDOf(store.Key{Queue: "turns", Tenant: "acme", Name: "poison"})
		h.db.fail(func(n *ReadSet) error {
			if slices.Contains(n.Keys, poison) {
				return fmt.Errorf("it is poisoned: %w", ErrRolledBack)
			}
			return nil
		}, nil)
		var calls []*call
		for i := range 40 {
			m := message(fmt.Sprint("k", i))
			if i == 17 {
				m = message("poison")
			}
			calls = append(calls, newCall(h.Context(), operation{tx: &store.Tx{Put: []store.Message{m}}}, 0))
		}
		f.run(calls, &trial{began: f.clock.Now()})
		for i, c := range calls {
			if (c.err != nil) != (i == 17) {
				t.Errorf("commit %d: %v", i, c.err)
			}
		}
		h.same("keys", int64(len(h.db.keys)), 39)
	})
}

func TestLeaseForNobodyIsLetGo(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		ctx, cancel := context.WithCancel(h.Context())
		c := h.claim(ctx, f, time.Hour)
		h.db.fail(nil, func() error {
			h.db.fail(nil, nil)
			cancel() // while the group is under way
			synctest.Wait()
			return nil
		})
		h.put(f, "k")
		synctest.Wait()
		if !errors.Is(c.err, context.Canceled) {
			t.Fatalf("the call that ended returned %v", c.err)
		}
		h.got(h.claim(h.Context(), f, time.Second), "k") // as its first attempt
	})
}

func TestOtherProcessIsToldAndFindsOutByItself(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %v", deaf), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				h.db.hintsDown.Store(deaf)
				a, b := h.open(), h.open()
				for i := range 5 {
					c := h.claim(h.Context(), b, time.Hour)
					if deaf {
						<-time.After(time.Minute) // so that it looks as seldom as it ever does
					}
					h.put(a, fmt.Sprint("k", i))
					limit := time.Duration(0)
					if deaf {
						limit = time.Second
					}
					<-time.After(limit)
					h.got(c, fmt.Sprint("k", i))
					if err := b.Commit(h.Context(), &store.Tx{Finish: []store.Finish{{Lease: c.claims[0].Lease()}}}); err != nil {
						t.Fatal(err)
					}
				}
				key := store.RecordKey{Kind: "instance", ID: "1"}
				found := make(chan store.Record)
				go func() {
					r, _ := b.Await(h.Context(), key, 0)
					found <- r
				}()
				synctest.Wait()
				if err := a.Commit(h.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}}}}); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if r := <-found; r.Version != 1 || time.Since(begun) > time.Second {
					t.Errorf("version %d after %v", r.Version, time.Since(begun))
				}
			})
		})
	}
}

func TestLeaseOfADeadProcessIsTakenUp(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		c := h.claim(h.Context(), a, time.Hour)
		waits := h.claim(h.Context(), b, time.Hour)
		h.put(a, "k")
		h.got(c, "k")
		a.CloseCore()
		<-time.After(time.Minute + 10*time.Second) // the lease, and a look
		synctest.Wait()
		if !waits.done || len(waits.claims) != 1 || waits.claims[0].Attempt() != 2 {
			t.Errorf("returned %v, with %v", waits.done, waits.claims)
		}
	})
}
