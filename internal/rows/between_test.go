package rows

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
)

func routeless(ttl time.Duration) func(*store.Message) {
	return func(m *store.Message) { m.Route, m.TTL = "", ttl }
}

func (h *fixture) nothing(f *Core) {
	h.Helper()
	if claims, err := f.Claim(h.Context(), request(0)); len(claims) > 0 || err != nil {
		h.Fatalf("claimed %v, %v", claims, err)
	}
}

// TestRouteBetweenLookAndQuarantine: a key gets a route after its message was found to have
// waited too long, or the message is deleted and put again.
func TestRouteBetweenLookAndQuarantine(t *testing.T) {
	cases := map[string]func(h *fixture, f *Core){
		"route":     func(h *fixture, f *Core) { h.put(f, "k", func(m *store.Message) { m.ID = "2" }) },
		"put again": func(h *fixture, f *Core) { h.delete(f, "k"); h.put(f, "k", routeless(time.Hour)) },
	}
	for name, between := range cases {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				h.put(f, "k", routeless(time.Second))
				<-time.After(time.Second)
				h.db.onLook(nil, func() {
					h.db.onLook(nil, nil)
					between(h, f)
				})
				h.nothing(f)
				h.same("in quarantine", h.quarantined(), 0)
			})
		})
	}
}

func (h *fixture) delete(f *Core, name string) {
	h.Helper()
	m := message(name)
	if err := f.Commit(h.Context(), &store.Tx{Delete: []store.MessageRef{m.Ref()}}); err != nil {
		h.Error(err)
	}
}

// TestLeaseBetweenLookAndQuarantine: the lease is over and another claimer has the key, with
// the message that the first one found to be delivered too often.
func TestLeaseBetweenLookAndQuarantine(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.exhaust(a, "k")
		h.db.onPick(func(*LeaseResult) {
			h.db.onPick(nil)
			<-time.After(time.Second)
			claims, err := b.Claim(h.Context(), request(0)) // as often as it likes
			if err != nil || len(claims) != 1 {
				t.Errorf("claimed %v, %v", claims, err)
			}
		})
		if claims, err := h.once(a, time.Second); err != nil || len(claims) > 0 {
			t.Errorf("claimed %v, %v", claims, err)
		}
		h.same("in quarantine", h.quarantined(), 0)
	})
}

// TestWhatComesDuringASweepExpiresToo: it is not seen by the look for the next.
func TestWhatComesDuringASweepExpiresToo(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", routeless(time.Second))
		<-time.After(time.Second)
		h.db.onLook(func() {
			h.db.onLook(nil, nil)
			h.put(f, "l", routeless(time.Second))
		}, nil)
		c := h.claim(h.Context(), f, time.Hour)
		h.same("in quarantine", h.quarantined(), 1)
		<-time.After(time.Second)
		synctest.Wait()
		h.same("in quarantine a second later", h.quarantined(), 2)
		h.put(f, "m")
		h.got(c, "m")
	})
}

// TestAllThatHasExpiredIsSwept: however much it is.
func TestAllThatHasExpiredIsSwept(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		tx := &store.Tx{}
		for i := range 2*sweepBatch + 1 {
			m := message("k")
			m.ID, m.Route, m.TTL = fmt.Sprint(i), "", time.Second
			tx.Put = append(tx.Put, m)
		}
		if err := f.Commit(h.Context(), tx); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		h.nothing(f)
		h.same("in quarantine", h.quarantined(), 2*sweepBatch+1)
	})
}

// TestWhatExpiredAndStaysIsNotSweptAllTheTime: the database does not give it out.
func TestWhatExpiredAndStaysIsNotSweptAllTheTime(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", routeless(time.Second))
		h.db.expiredHidden.Store(true)
		c := h.claim(h.Context(), f, time.Hour)
		<-time.After(11 * time.Second)
		if n := h.db.picks.Load(); n > 15 {
			t.Errorf("%d picks in 10 seconds", n)
		}
		h.db.expiredHidden.Store(false)
		<-time.After(time.Second)
		synctest.Wait()
		h.same("in quarantine", h.quarantined(), 1)
		h.put(f, "l")
		h.got(c, "l")
	})
}

// TestManyMessagesOfALease: the same rules hold when there are too many to go through.
func TestManyMessagesOfALease(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		tx := &store.Tx{}
		for i := range 100 {
			m := message("k")
			m.ID = fmt.Sprint(i)
			tx.Put = append(tx.Put, m)
		}
		commit := func(tx *store.Tx) {
			t.Helper()
			if err := f.Commit(h.Context(), tx); err != nil {
				t.Fatal(err)
			}
		}
		commit(tx)
		c := h.claim(h.Context(), f, 0)
		h.got(c, "k")

		// What was consumed can be put again under its ID, in the same Tx.
		finish := store.Finish{Lease: c.claims[0].Lease(), Keep: []string{"7"}}
		commit(&store.Tx{Finish: []store.Finish{finish}, Put: tx.Put[:50]})
		row := h.db.keys[IDOf(message("k").Key)]
		h.same("messages", int64(row.Count), 50)

		// One that was delivered is deleted: the lease is over.
		c = h.claim(h.Context(), f, 0)
		if c.err != nil || len(c.claims) != 1 || len(c.claims[0].Messages) != 50 {
			t.Fatalf("claimed %v, %v", c.claims, c.err)
		}
		h.put(f, "k", func(m *store.Message) { m.ID = "late" })
		commit(&store.Tx{Delete: []store.MessageRef{{Key: message("k").Key, ID: "late"}}})
		if lost, err := f.Renew(h.Context(), time.Minute, []store.Lease{c.claims[0].Lease()}); len(lost) > 0 || err != nil {
			t.Errorf("lost %v, %v, though what was deleted was not delivered", lost, err)
		}
		commit(&store.Tx{Delete: []store.MessageRef{{Key: message("k").Key, ID: "49"}}})
		if lost, err := f.Renew(h.Context(), time.Minute, []store.Lease{c.claims[0].Lease()}); len(lost) != 1 || err != nil {
			t.Errorf("lost %v, %v, though what was delivered was deleted", lost, err)
		}

		// All in one group, with the key deleted on the way.
		del := &store.Tx{DeleteKeys: []store.Key{message("k").Key}, Put: tx.Put}
		for i := range tx.Put {
			del.Delete = append(del.Delete, tx.Put[i].Ref())
		}
		calls := []*call{
			newCall(h.Context(), operation{tx: &store.Tx{Delete: del.Delete}}, 0),
			newCall(h.Context(), operation{tx: del}, 0), newCall(h.Context(), operation{tx: tx}, 0),
		}
		f.run(calls, &trial{began: f.clock.Now()})
		for i, c := range calls {
			if c.err != nil {
				t.Errorf("call %d: %v", i, c.err)
			}
		}
		h.same("messages", int64(h.db.keys[IDOf(message("k").Key)].Count), 100)
		h.db.verify(t)
	})
}

// TestSweepThatFailsLeavesNoLease: the call fails, and gives back what it leased.
func TestSweepThatFailsLeavesNoLease(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", routeless(time.Second))
		<-time.After(time.Second)
		h.put(f, "l")
		h.db.readsFail.Store(true)
		if claims, err := f.Claim(h.Context(), request(0)); !errors.Is(err, errBroken) || len(claims) > 0 {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		h.db.readsFail.Store(false)
		synctest.Wait()
		h.got(h.claim(h.Context(), f, 0), "l") // as its first attempt
		h.same("in quarantine", h.quarantined(), 1)
	})
}

// TestLeaseThatALookMadeEnds: nobody needs to look to know when.
func TestLeaseThatALookMadeEnds(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k")
		req := request(0)
		req.Lease = time.Second
		if claims, err := f.Claim(h.Context(), req); len(claims) != 1 || err != nil {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		c := h.claim(h.Context(), f, time.Hour)
		<-time.After(time.Second)
		synctest.Wait()
		if !c.done || len(c.claims) != 1 || c.claims[0].Attempt() != 2 {
			t.Errorf("returned %v, with %v", c.done, c.claims)
		}
	})
}

// TestWaitThatEndsWhileOthersAreServed: a query is made for it all the same, and nothing that
// is put meanwhile comes before what was there.
func TestWaitThatEndsWhileOthersAreServed(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.waitFor(a, 1, "other")
		c := &claiming{}
		go func() {
			req := request(30 * time.Second)
			req.Max = 1
			c.claims, c.err = a.Claim(h.Context(), req)
			c.done = true
		}()
		<-time.After(15 * time.Second) // a query was made since they came
		hold := make(chan struct{})
		h.db.onPick(func(*LeaseResult) {
			h.db.onPick(nil)
			<-hold
		})
		a.Hint(Hint{Due: map[int64]int64{PartitionOf("turns", "other"): 0}}) // for the first, which takes long
		synctest.Wait()
		h.put(b, "old")
		<-time.After(time.Millisecond)
		h.put(a, "new")
		<-time.After(15 * time.Second)
		h.got(c, "old")
		close(hold)
	})
}

// TestWaitThatEndsWithoutHints: what came after the last poll is found.
func TestWaitThatEndsWithoutHints(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsDown.Store(true)
		c := h.claim(h.Context(), a, 30*time.Second+500*time.Millisecond) // polls are at 29.55 s and 30.55 s
		<-time.After(30 * time.Second)
		h.put(b, "k")
		<-time.After(500 * time.Millisecond)
		h.got(c, "k")
		h.same("who waits", int64(a.Waiting()), 0)
	})
}

// TestRecordsWithOneNumber: two have it by chance.
func TestRecordsWithOneNumber(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		found := h.await(f, instance, 0)
		other := store.RecordKey{Kind: "instance", ID: "other"}
		f.records.mu.Lock()
		f.records.changed(&change{other, RecordOf(instance), &recordWork{version: 1, record: &store.Record{Key: other, Version: 1}}})
		f.records.mu.Unlock()
		if r := found(); r != nil {
			t.Errorf("found %v", r)
		}
	})
}
