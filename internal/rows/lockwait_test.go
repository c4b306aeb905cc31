package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
)

// locks are rows that other transactions hold.
type locks struct {
	mu   sync.Mutex
	keys map[ID]bool
}

func (h *fixture) openWithSideQueue() (*Core, *locks) {
	f := New(Options{Writers: 2, Aside: true})
	h.db.frames = append(h.db.frames, f)
	f.Start(h.db)
	h.Cleanup(func() { f.CloseCore() })
	l := &locks{keys: map[ID]bool{}}
	h.db.fail(l.meet, nil)
	return f, l
}

func (l *locks) set(name string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[IDOf(message(name).Key)] = held
}

func (l *locks) holds(n *ReadSet) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(n.Keys, func(id ID) bool { return l.keys[id] })
}

// meet has an update wait for a locked row, as a database does.
func (l *locks) meet(n *ReadSet) error {
	wait := n.LockWait
	if wait == 0 {
		wait = 300 * time.Millisecond
	}
	for began := time.Now(); l.holds(n); <-time.After(time.Millisecond) {
		if time.Since(began) >= wait {
			return fmt.Errorf("it is held: %w", ErrLocked)
		}
	}
	return nil
}

// committing is a commit in a goroutine of its own.
type committing struct {
	err  error
	took time.Duration
	done chan struct{}
}

func (h *fixture) commit(ctx context.Context, f *Core, name, id string) *committing {
	c := &committing{done: make(chan struct{})}
	began := time.Now()
	go func() {
		m := message(name)
		m.ID = id
		c.err = f.Commit(ctx, &store.Tx{Put: []store.Message{m}})
		c.took = time.Since(began)
		close(c.done)
	}()
	return c
}

// TestLockedRowStopsOneCall: however many processes there are, the calls that are in one
// group with it, and all that come later, go through within a second.
func TestLockedRowStopsOneCall(t *testing.T) {
	for _, others := range []bool{false, true} {
		for _, locked := range []int{1, 2, 5} {
			t.Run(fmt.Sprint("other processes ", others, ", locked rows ", locked), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.db.shared.Store(others)
					f, locks := h.openWithSideQueue()
					var stuck, neighbours []*committing
					for i := range locked {
						locks.set(fmt.Sprint("locked ", i), true)
						stuck = append(stuck, h.commit(h.Context(), f, fmt.Sprint("locked ", i), "1"))
						for j := range 20 {
							neighbours = append(neighbours, h.commit(h.Context(), f, fmt.Sprint("beside ", i, " ", j), "1"))
						}
					}
					for i := range 200 {
						c := h.commit(h.Context(), f, fmt.Sprint("later ", i), "1")
						<-c.done
						neighbours = append(neighbours, c)
					}
					longest := time.Duration(0)
					for _, c := range neighbours {
						<-c.done
						longest = max(longest, c.took)
						if c.err != nil {
							t.Error(c.err)
						}
					}
					if longest > time.Duration(locked)*time.Second {
						t.Errorf("a commit that touches no locked row took %v", longest)
					}
					<-time.After(20 * time.Second)
					for i, c := range stuck {
						select {
						case <-c.done:
							t.Errorf("commit %d to a locked row has returned %v", i, c.err)
						default:
						}
						locks.set(fmt.Sprint("locked ", i), false)
						freed := time.Now()
						<-c.done
						if took := time.Since(freed); c.err != nil || took > time.Second {
							t.Errorf("commit %d: %v, %v after its row was unlocked", i, c.err, took)
						}
					}
				})
			})
		}
	}
}

// TestCallThatWaitsForALockTooLong fails alone, and those that touch the same and came later
// are tried by themselves.
func TestCallThatWaitsForALockTooLong(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, locks := h.openWithSideQueue()
		locks.set("k", true)
		first := h.commit(h.Context(), f, "k", "1")
		synctest.Wait()
		brief, cancel := context.WithTimeout(h.Context(), time.Second)
		defer cancel()
		second, third := h.commit(brief, f, "k", "2"), h.commit(h.Context(), f, "k", "3")
		<-second.done
		if !errors.Is(second.err, context.DeadlineExceeded) || second.took != time.Second {
			t.Errorf("the caller who gave up after a second got %v after %v", second.err, second.took)
		}
		<-first.done
		if !errors.Is(first.err, ErrRolledBack) || first.took < lockLimit || first.took > lockLimit+time.Second {
			t.Errorf("the first got %v after %v, want ErrUndone after %v", first.err, first.took, lockLimit)
		}
		locks.set("k", false)
		<-third.done
		if third.err != nil {
			t.Error(third.err)
		}
		if row := h.db.keys[IDOf(message("k").Key)]; row == nil || row.Count != 1 {
			t.Errorf("the key has %v, want the message of the third alone", row)
		}
	})
}

// TestRenewalBesideALockedRow: leases whose rows nobody holds are renewed at once, and the
// error names the others.
func TestRenewalBesideALockedRow(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("a commit waits for the row ", busy), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f, locks := h.openWithSideQueue()
				for i := range 8 {
					h.put(f, fmt.Sprint(i))
				}
				claims, err := f.Claim(h.Context(), request(0))
				if err != nil || len(claims) != 8 {
					t.Fatalf("claimed %v, %v", claims, err)
				}
				var leases []store.Lease
				for _, c := range claims {
					leases = append(leases, c.Lease())
				}
				gone := store.Lease{Key: message("other").Key, Token: "made up"}
				locks.set("3", true)
				if busy {
					h.commit(h.Context(), f, "3", "2")
				}
				<-time.After(10 * time.Second)
				began := time.Now()
				lost, err := f.Renew(h.Context(), time.Minute, append(leases, gone))
				some, ok := errors.AsType[*store.NotRenewedError](err)
				if !ok || len(some.Leases) != 1 || some.Leases[0].Key.Name != "3" || len(lost) != 1 || lost[0] != gone {
					t.Errorf("renew: %v, %v", lost, err)
				}
				if took := time.Since(began); took > maxRenewal+time.Second {
					t.Errorf("it took %v", took)
				}
				for _, c := range claims {
					until := time.UnixMilli(h.db.keys[IDOf(c.Key)].Until)
					if renewed := !until.Before(began.Add(time.Minute)); renewed != (c.Key.Name != "3") {
						t.Errorf("the lease of %s lasts until %v", c.Key.Name, until)
					}
				}
				locks.set("3", false)
				if lost, err := f.Renew(h.Context(), time.Minute, leases); len(lost) > 0 || err != nil {
					t.Errorf("renew when nothing is locked: %v, %v", lost, err)
				}
			})
		})
	}
}

// TestCloseDoesNotWaitForALock: a call that waits for one is tried once more.
func TestCloseDoesNotWaitForALock(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, locks := h.openWithSideQueue()
		locks.set("k", true)
		c, behind := h.commit(h.Context(), f, "k", "1"), h.commit(h.Context(), f, "k", "2")
		<-time.After(time.Second)
		began := time.Now()
		f.CloseCore()
		<-c.done
		<-behind.done
		if took := time.Since(began); took > 2*time.Second || c.err == nil || behind.err == nil {
			t.Errorf("closed after %v; the commits returned %v and %v", took, c.err, behind.err)
		}
	})
}

// TestManyRenewals: leases of which there are more than a group takes are not given up while
// they wait for their turn.
func TestManyRenewals(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f, _ := h.openWithSideQueue()
		h.db.fail(func(*ReadSet) error { <-time.After(2 * minRenewal); return nil }, nil)
		leases := make([]store.Lease, 5*f.o.MaxGroup)
		for i := range leases {
			leases[i] = store.Lease{Key: message(fmt.Sprint(i)).Key, Token: "made up"}
		}
		lost, err := f.Renew(h.Context(), time.Second, leases)
		if err != nil || len(lost) != len(leases) {
			t.Errorf("renew: %d of %d are lost, %v", len(lost), len(leases), err)
		}
	})
}
