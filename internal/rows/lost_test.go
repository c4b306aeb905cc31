package rows

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
)

func (h *fixture) putRecord(f *Core, key store.RecordKey) {
	h.Helper()
	tx := &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}, Expect: store.AnyVersion}}}
	if err := f.Commit(h.Context(), tx); err != nil {
		h.Error(err)
	}
}

func (h *fixture) version(what string, r *store.Record, want int64) {
	h.Helper()
	if r == nil || r.Version != want {
		h.Errorf("%s: the record is %v, want version %d", what, r, want)
	}
}

var instance = store.RecordKey{Kind: "instance", ID: "1"}

// TestHintOfARecordThatNobodyAwaitsIsNotForgotten: another process changes a record that
// this one put, and then a call of this process awaits the change.
func TestHintOfARecordThatNobodyAwaitsIsNotForgotten(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all %v", all), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				a, b := h.open(), h.open()
				h.db.hintsLost.Store(true)
				h.putRecord(a, instance)
				h.putRecord(b, instance)
				if all {
					a.Hint(Hint{})
				} else {
					a.Hint(Hint{Records: []int64{RecordOf(instance)}})
				}
				h.version("at once", h.await(a, instance, 1)(), 2)
			})
		})
	}
}

// TestHintThatOvertakesACommit: the hint of a later version comes before this process
// knows that its own commit went through.
func TestHintThatOvertakesACommit(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all %v", all), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				a, b := h.open(), h.open()
				h.db.hintsLost.Store(true)
				h.putRecord(b, instance)
				found := h.await(a, instance, 2)
				h.db.fail(nil, func() error {
					h.db.fail(nil, nil)
					h.putRecord(b, instance) // the third version
					if all {
						a.Hint(Hint{})
					} else {
						a.Hint(Hint{Records: []int64{RecordOf(instance)}})
					}
					return nil
				})
				h.putRecord(a, instance) // the second
				h.version("who awaited it before", found(), 3)
				h.version("who awaits it then", h.await(a, instance, 2)(), 3)
			})
		})
	}
}

// TestGroupsAtOnceTouchDifferentThings: what touches the same as a group under way waits for
// it, and so does what comes after that and touches the same. The rest is not kept waiting.
func TestGroupsAtOnceTouchDifferentThings(t *testing.T) {
	key := func(name string) store.Tx {
		return store.Tx{Put: []store.Message{{Key: store.Key{Queue: "turns", Name: name}, ID: rand.Text(), Route: "order"}}}
	}
	record := func(id string) store.Tx {
		return store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "instance", ID: id}}, Expect: store.AnyVersion}}}
	}
	both := func(a, b store.Tx) store.Tx { a.Put = append(a.Put, b.Put...); return a }
	cases := []struct {
		name             string
		held, waits, not []store.Tx
	}{
		{"a key", []store.Tx{key("a")}, []store.Tx{key("a")}, []store.Tx{key("b")}},
		{"a record", []store.Tx{record("a")}, []store.Tx{record("a")}, []store.Tx{record("b")}},
		{"a lease", []store.Tx{key("a")}, []store.Tx{{Finish: []store.Finish{{Lease: store.Lease{Key: store.Key{Queue: "turns", Name: "a"}, Token: "t"}}}}}, []store.Tx{key("b")}},
		{"one after another", []store.Tx{key("a")}, []store.Tx{both(key("a"), key("b")), key("b")}, []store.Tx{key("c")}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				hold, held := make(chan struct{}), atomic.Bool{}
				h.db.fail(nil, func() error {
					if held.CompareAndSwap(false, true) {
						<-hold
					}
					return nil
				})
				begin := func(list []store.Tx) (ended *atomic.Int32) {
					ended = &atomic.Int32{}
					for i := range list {
						go func() {
							if err := f.Commit(h.Context(), &list[i]); err != nil && !errors.Is(err, store.ErrClaimLost) {
								h.Error(err)
							}
							ended.Add(1)
						}()
						synctest.Wait()
					}
					return ended
				}
				first, waits, rest := begin(c.held), begin(c.waits), begin(c.not)
				if first.Load() != 0 || waits.Load() != 0 || rest.Load() != int32(len(c.not)) {
					h.Errorf("while a group is under way, %d that touch the same have ended, and %d of %d others", waits.Load(), rest.Load(), len(c.not))
				}
				close(hold)
				synctest.Wait()
				if waits.Load() != int32(len(c.waits)) {
					h.Errorf("after it, %d of %d have ended", waits.Load(), len(c.waits))
				}
			})
		})
	}
}

// TestAFullGroupIsBegun: it is as large as it gets, however many calls the one under way has.
func TestAFullGroupIsBegun(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		calls := func(names string, size int) (list []*call) {
			for _, name := range names {
				m := message(string(name))
				list = append(list, newCall(h.Context(), operation{tx: &store.Tx{Put: []store.Message{m}}}, size))
			}
			return list
		}
		hold, held := make(chan struct{}), atomic.Bool{}
		h.db.fail(nil, func() error {
			if held.CompareAndSwap(false, true) {
				<-hold
			}
			return nil
		})
		many := calls("abc", 0)
		go func() { _ = f.commits.submit("commit", many...) }()
		synctest.Wait()
		large := calls("defghi", maxGroupBytes)
		go func() { _ = f.commits.submit("commit", large...) }()
		synctest.Wait()
		for i, c := range large[:4] { // until fewer are left than are under way
			select {
			case <-c.done:
			default:
				h.Errorf("call %d of those that fill a group waits for another one", i)
			}
		}
		close(hold)
		synctest.Wait()
	})
}

// TestQuarantineBesideAPut: a message goes to quarantine, whose record another call of
// this process puts in the same moment: which of them was first is not known.
func TestQuarantineBesideAPut(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", func(m *store.Message) { m.Route, m.TTL = "", time.Second })
		<-time.After(2 * time.Second)
		key := message("k").Key
		pending, err := f.db.(*watched).tables.pending(key)
		if err != nil {
			t.Fatal(err)
		}
		record := store.Quarantine(pending, "", store.ReasonExpired, time.Now()).Record.Key
		h.db.fail(nil, func() error {
			h.db.fail(nil, nil)
			expire := &expiry{keys: []store.Key{key}, refs: []Ref{{IDOf(key), pending.ID}}}
			return f.commits.submit("claim", newCall(h.Context(), operation{expire: expire}, 0)) // the second version
		})
		h.putRecord(f, record) // the first
		began := time.Now()
		r, err := f.Await(h.Context(), record, 1)
		if err != nil || r.Version != 2 || time.Since(began) > 0 {
			t.Errorf("await: %v, %v after %v", r, err, time.Since(began))
		}
	})
}

// TestPollAsksForAllRecordsAtOnce: without hints, what others change is found by looking;
// one query finds out what has changed, and only that is read.
func TestPollAsksForAllRecordsAtOnce(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		const n = maxVersions + 10
		key := func(i int) store.RecordKey { return store.RecordKey{Kind: "instance", ID: fmt.Sprint(i)} }
		h.putRecord(b, key(1))
		h.putRecord(a, key(2))
		var found []func() *store.Record
		for i := range n {
			after := int64(0)
			if i == 1 || i == 2 {
				after = 1
			}
			found = append(found, h.await(a, key(i), after))
		}
		deleted := make(chan error)
		go func() { _, err := a.Await(h.Context(), key(2), 1); deleted <- err }()
		<-time.After(3 * watchAfter) // until all are watched, and were queried for once more
		h.db.reads.Store(0)
		h.db.asked.Store(0)
		h.putRecord(b, key(0))
		h.putRecord(b, key(1))
		if err := b.Commit(h.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: key(2), Expect: 1}}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(a.o.Poll)
		h.version("a new record", found[0](), 1)
		h.version("a record that has changed", found[1](), 2)
		if err := <-deleted; !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of a record that is gone: %v", err)
		}
		h.same("reads", h.db.reads.Load(), 4) // the deleted one has two who await it
		h.same("queries for versions", h.db.asked.Load(), 2)

		// What is known of a record is forgotten with it.
		began := time.Now()
		if _, err := a.Await(h.Context(), key(2), 1); !errors.Is(err, store.ErrNotFound) || time.Since(began) > 0 {
			t.Errorf("of a record that is gone, asked again: %v after %v", err, time.Since(began))
		}
		h.db.readsFail.Store(true)
		_, err := a.Await(h.Context(), key(1), 2)
		if !errors.Is(err, errBroken) {
			t.Errorf("of a broken database: %v", err)
		}
	})
}

// TestHintOfAnythingAsksForAllRecordsAtOnce: so does a hint that anything may have happened,
// however many there are of them at once.
func TestHintOfAnythingAsksForAllRecordsAtOnce(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		key := func(i int) store.RecordKey { return store.RecordKey{Kind: "instance", ID: fmt.Sprint(i)} }
		var found []func() *store.Record
		for i := range 100 {
			found = append(found, h.await(a, key(i), 0))
		}
		h.putRecord(b, key(7))
		h.db.reads.Store(0)
		h.db.asked.Store(0)
		a.Hint(Hint{})
		h.version("a record that has changed", found[7](), 1)
		h.same("reads", h.db.reads.Load(), 1)
		h.same("queries for versions", h.db.asked.Load(), 1)
		for range 50 {
			a.Hint(Hint{})
		}
		synctest.Wait()
		if n := h.db.asked.Load(); n < 2 || n > 20 || h.db.reads.Load() != 1 {
			t.Errorf("after 50 hints more, %d queries for versions and %d reads", n, h.db.reads.Load())
		}
		h.putRecord(b, key(8))
		a.Hint(Hint{})
		h.version("a record that has changed after them", found[8](), 1)
	})
}

// TestPollOfABrokenDatabase: who awaits a record is told that the database does not answer.
func TestPollOfABrokenDatabase(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		told := make(chan error)
		go func() { _, err := f.Await(h.Context(), instance, 0); told <- err }()
		synctest.Wait()
		h.db.readsFail.Store(true)
		<-time.After(f.o.Poll)
		if err := <-told; !errors.Is(err, errBroken) {
			t.Errorf("await: %v", err)
		}
	})
}

// TestWhatOneCallLearnsWakesTheOthers: a call that looks finds what another process put for
// later, and of which no hint came. Who waits is served at that time.
func TestWhatOneCallLearnsWakesTheOthers(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		c := h.claim(h.Context(), a, time.Hour)
		h.put(b, "k", func(m *store.Message) { m.VisibleAt = time.Now().Add(3 * time.Second) })
		if claims, err := a.Claim(h.Context(), request(0)); len(claims) > 0 || err != nil {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		<-time.After(3 * time.Second)
		h.got(c, "k")
	})
}

// TestShortWaitDoesNotTrustHints: what another process committed before the call began is
// found, whether or not its hint has come.
func TestShortWaitDoesNotTrustHints(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		if claims, err := a.Claim(h.Context(), request(0)); len(claims) > 0 || err != nil {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		h.put(b, "k")
		c := h.claim(h.Context(), a, 20*time.Millisecond)
		<-time.After(20 * time.Millisecond)
		h.got(c, "k")
	})
}

// TestWaitThatEndsDuringALook: something comes after the look and before the end.
func TestWaitThatEndsDuringALook(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.db.onPick(func(*LeaseResult) {
			h.db.onPick(nil)
			<-time.After(2 * time.Second)
			h.put(f, "k") // not seen by this look
			<-time.After(2 * time.Second)
		})
		c := h.claim(h.Context(), f, 3*time.Second)
		<-time.After(4 * time.Second)
		h.got(c, "k")
	})
}

// TestWaitThatEndsWhileAGroupFails: something else is there when the group has failed.
func TestWaitThatEndsWhileAGroupFails(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		c := h.claim(h.Context(), a, 2*time.Second)
		h.db.failDecidedWith(fmt.Errorf("full: %w", store.ErrFull))
		h.db.fail(func(*ReadSet) error {
			h.db.fail(nil, nil)
			return nil
		}, nil)
		slow := make(chan struct{})
		h.db.beforeDecidedFail(func() {
			h.db.failDecidedWith(nil)
			<-time.After(3 * time.Second) // the wait has come to its end
			h.put(b, "k")
			close(slow)
		})
		if err := h.try(a, "x"); !errors.Is(err, store.ErrFull) {
			t.Fatalf("commit: %v", err)
		}
		<-slow
		h.got(c, "k")
	})
}

// TestDatabaseWhoseClockStandsStillIsNotAskedAllTheTime: it was set back, and shows the
// same time until it has caught up.
func TestDatabaseWhoseClockStandsStillIsNotAskedAllTheTime(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", func(m *store.Message) { m.VisibleAt = time.Now().Add(5 * time.Second) })
		c := h.claim(h.Context(), f, time.Hour)
		h.db.setBack(4 * time.Second)
		picks := h.db.picks.Load()
		<-time.After(5*time.Second + 4*time.Second)
		h.got(c, "k")
		if n := h.db.picks.Load() - picks; n > 10 {
			t.Errorf("%d picks", n)
		}
	})
}

// TestHeldKeysAreNotAskedForAllTheTime: a database says that something is ready, and that
// it cannot be had now.
func TestHeldKeysAreNotAskedForAllTheTime(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k")
		h.db.onPick(func(got *LeaseResult) {
			for i := range got.Keys { // as if it had not been leased
				row := h.db.keys[got.Keys[i].Row.ID]
				row.Token, row.Delivered = "", nil
			}
			got.Keys, got.Next = nil, 0
		})
		c := h.claim(h.Context(), f, time.Hour)
		<-time.After(50 * time.Millisecond)
		if n := h.db.picks.Load(); n > 60 {
			t.Errorf("%d picks in 50 ms", n)
		}
		h.db.onPick(nil)
		<-time.After(time.Millisecond)
		h.got(c, "k")
	})
}

// TestHintsThatEndMakeItLookMoreOften: the backend says that anything may have happened,
// and that no hints arrive any more.
func TestHintsThatEndMakeItLookMoreOften(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		c := h.claim(h.Context(), a, time.Hour)
		<-time.After(time.Second)
		h.db.hintsDown.Store(true)
		a.Hint(Hint{})
		synctest.Wait()
		h.put(b, "k")
		<-time.After(time.Second)
		h.got(c, "k")
	})
}

// TestBrokenDatabaseIsNotAskedForEachCall: if nothing can be written, no call is to blame.
func TestBrokenDatabaseIsNotAskedForEachCall(t *testing.T) {
	withFixture(t, func(h *fixture) {
		for _, slow := range []time.Duration{0, 3 * time.Second} {
			f := h.open()
			h.db.fail(func(*ReadSet) error {
				<-time.After(slow)
				return fmt.Errorf("refused: %w", ErrRolledBack)
			}, nil)
			var calls []*call
			for i := range 512 {
				tx := &store.Tx{Put: []store.Message{message(fmt.Sprint("k", i))}}
				calls = append(calls, newCall(h.Context(), operation{tx: tx}, 0))
			}
			updates := h.db.updates.Load()
			f.run(calls, &trial{began: f.clock.Now()})
			n := h.db.updates.Load() - updates
			if most := int64(200); n > most || (slow > 0 && n > 1) {
				t.Errorf("%d updates, when each takes %v", n, slow)
			}
			for i, c := range calls {
				<-c.done
				if !errors.Is(c.err, ErrRolledBack) {
					t.Fatalf("call %d: %v", i, c.err)
				}
			}
			h.db.fail(nil, nil)
		}
	})
}

// TestManySweepAtOnce: one does it.
func TestManySweepAtOnce(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", func(m *store.Message) { m.Route, m.TTL = "", time.Second })
		<-time.After(time.Second)
		h.db.fail(func(*ReadSet) error {
			<-time.After(time.Millisecond)
			return nil
		}, nil)
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if claims, err := f.Claim(context.Background(), request(0)); len(claims) > 0 || err != nil {
					t.Errorf("claimed %v, %v", claims, err)
				}
			})
		}
		calls.Wait()
		h.same("keys", int64(len(h.db.keys)), 0)
		if n := h.db.looks.Load(); n > 2 {
			t.Errorf("%d sweeps", n)
		}
	})
}

// TestAwaitWithoutHints: a process that is alone reads nothing of a record that it wrote last. Beside
// others it reads; and a process that comes later is found out by a poll.
func TestAwaitWithoutHints(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a := h.open()
		h.db.hintsDown.Store(true)
		h.putRecord(a, instance)
		found := h.await(a, instance, 1)
		h.same("reads of a process that is alone", h.db.reads.Load(), 0)
		b := h.open()
		h.putRecord(b, instance)
		<-time.After(time.Second)
		h.version("after a poll", found(), 2)
		h.putRecord(a, instance)
		reads := h.db.reads.Load()
		h.await(a, instance, 3)
		h.same("reads beside another process", h.db.reads.Load()-reads, 1)
	})
}
