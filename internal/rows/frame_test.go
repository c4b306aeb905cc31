package rows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// watched is tables that count what is asked of them, and fail when they are told to.
type watched struct {
	*tables
	picks, looks, updates atomic.Int64
	deaf                  atomic.Bool // no hints arrive

	mu     sync.Mutex
	before func(*Need) error // of an update; nothing is changed if it fails
	after  func() error      // of one that was written
}

func (d *watched) Pick(ctx context.Context, p *Pick) (*Picked, error) {
	d.picks.Add(1)
	return d.tables.Pick(ctx, p)
}

func (d *watched) Look(ctx context.Context, lanes []int64) (int64, []int64, error) {
	d.looks.Add(1)
	return d.tables.Look(ctx, lanes)
}

func (d *watched) Update(ctx context.Context, n *Need, decide func(int64, *State) *Changes) error {
	d.updates.Add(1)
	d.mu.Lock()
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		if err := before(n); err != nil {
			return err
		}
	}
	if err := d.tables.Update(ctx, n, decide); err != nil {
		return err
	}
	if after != nil {
		return after()
	}
	return nil
}

func (d *watched) Hinted() bool { return !d.deaf.Load() }

func (d *watched) Announce(lanes map[int64]int64, records []int64) {
	if !d.deaf.Load() {
		d.tables.Announce(lanes, records)
	}
}

// fail makes updates fail.
func (d *watched) fail(before func(*Need) error, after func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = before, after
}

// house is one database and the frames on it, in virtual time.
type house struct {
	*testing.T
	db *watched
}

func inHouse(t *testing.T, f func(h *house)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(&house{t, &watched{tables: newTables(base.System{})}}) })
}

func (h *house) open() *Frame {
	f := New(Options{Writers: 2})
	h.db.frames = append(h.db.frames, f)
	f.Start(h.db)
	h.Cleanup(func() { f.CloseFrame() })
	return f
}

func (h *house) put(f *Frame, name string, options ...func(*store.Message)) {
	h.Helper()
	m := store.Message{Key: store.Key{Queue: "turns", Tenant: "acme", Name: name}, ID: "1", Route: "order", Body: []byte(name)}
	for _, o := range options {
		o(&m)
	}
	if err := f.Commit(h.Context(), &store.Tx{Put: []store.Message{m}}); err != nil {
		h.Error(err)
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
func (h *house) claim(ctx context.Context, f *Frame, wait time.Duration) *claiming {
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
func (h *house) got(c *claiming, names ...string) {
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

func (h *house) same(what string, got, want int64) {
	h.Helper()
	if got != want {
		h.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func TestWhatIsPutForWhoWaitsIsNotLookedFor(t *testing.T) {
	inHouse(t, func(h *house) {
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
	inHouse(t, func(h *house) {
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
	inHouse(t, func(h *house) {
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
	inHouse(t, func(h *house) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		bad := errors.New("connection lost")
		h.db.fail(nil, func() error { return bad }) // decided, written, and not known to be
		err := f.Commit(h.Context(), &store.Tx{Put: []store.Message{{Key: store.Key{Queue: "turns", Name: "x"}, ID: "1", Route: "order"}}})
		if !errors.Is(err, bad) {
			t.Fatalf("commit: %v", err)
		}
		synctest.Wait()
		if c.done {
			t.Fatalf("claimed %v by a commit that failed", c.claims)
		}
		h.db.fail(nil, nil)
		h.put(f, "k")
		h.got(c, "k")
	})
}

func TestGroupIsTriedAgain(t *testing.T) {
	inHouse(t, func(h *house) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		tries := 0
		h.db.fail(func(*Need) error {
			if tries++; tries < 4 {
				return fmt.Errorf("deadlock: %w", ErrAgain)
			}
			return nil
		}, nil)
		h.put(f, "k")
		h.got(c, "k")
		h.same("tries", int64(tries), 4)
	})
}

func TestOneThatCannotBeWrittenDoesNotFailItsNeighbours(t *testing.T) {
	inHouse(t, func(h *house) {
		f := h.open()
		poison := IDOf(store.Key{Queue: "turns", Tenant: "acme", Name: "poison"})
		h.db.fail(func(n *Need) error {
			for _, id := range n.Keys {
				if id == poison {
					return fmt.Errorf("it is poisoned: %w", ErrUndone)
				}
			}
			return nil
		}, nil)
		hold := make(chan struct{})
		h.db.tables.mu.Lock() // so that the calls gather
		go func() { <-hold; h.db.tables.mu.Unlock() }()
		errs := make([]error, 40)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() {
				name := fmt.Sprint("k", i)
				if i == 17 {
					name = "poison"
				}
				m := store.Message{Key: store.Key{Queue: "turns", Tenant: "acme", Name: name}, ID: "1", Route: "order"}
				errs[i] = f.Commit(h.Context(), &store.Tx{Put: []store.Message{m}})
			})
		}
		close(hold)
		calls.Wait()
		for i, err := range errs {
			if (err != nil) != (i == 17) {
				t.Errorf("commit %d: %v", i, err)
			}
		}
	})
}

func TestLeaseForNobodyIsLetGo(t *testing.T) {
	inHouse(t, func(h *house) {
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
			inHouse(t, func(h *house) {
				h.db.deaf.Store(deaf)
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
	inHouse(t, func(h *house) {
		a, b := h.open(), h.open()
		c := h.claim(h.Context(), a, time.Hour)
		waits := h.claim(h.Context(), b, time.Hour)
		h.put(a, "k")
		h.got(c, "k")
		a.CloseFrame()
		<-time.After(time.Minute + 10*time.Second) // the lease, and a look
		synctest.Wait()
		if !waits.done || len(waits.claims) != 1 || waits.claims[0].Attempt() != 2 {
			t.Errorf("returned %v, with %v", waits.done, waits.claims)
		}
	})
}
