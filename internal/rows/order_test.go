package rows

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// waitFor begins to wait for one key of some routes.
func (h *fixture) waitFor(f *Core, most int, routes ...string) *claiming {
	c := &claiming{}
	go func() {
		req := request(time.Hour)
		req.Routes, req.Max, req.MaxMessages = routes, most, 2
		c.claims, c.err = f.Claim(h.Context(), req)
		c.done = true
	}()
	synctest.Wait()
	return c
}

// TestWhoCameFirstIsServedFirst: by a commit and by a look, whatever else they wait for, and
// also after a group has failed that was to serve them.
func TestWhoCameFirstIsServedFirst(t *testing.T) {
	for _, how := range []string{"commit", "look", "failed"} {
		t.Run(how, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				sets := [][]string{{"order", "a"}, {"order"}, {"b", "order"}, {"order"}, {"order", "a"}}
				var calls []*claiming
				for _, routes := range sets {
					calls = append(calls, h.waitFor(f, 1, routes...))
				}
				if how == "failed" {
					h.db.failDecidedWith(fmt.Errorf("no: %w", ErrRolledBack))
					tx := &store.Tx{}
					for i := range sets {
						tx.Put = append(tx.Put, message(fmt.Sprint("x", i)))
					}
					if err := f.Commit(h.Context(), tx); err == nil {
						t.Fatal("it was committed")
					}
					h.db.failDecidedWith(nil)
					synctest.Wait()
				}
				for i := range sets {
					h.put(f, fmt.Sprint("k", i), func(m *store.Message) {
						if how == "look" {
							m.VisibleAt = time.Now().Add(time.Second)
						}
					})
					if how == "look" {
						<-time.After(time.Second)
					}
					h.got(calls[i], fmt.Sprint("k", i))
				}
			})
		})
	}
}

// TestWhatIsHandedIsWhatIsAskedFor: as many keys and messages, and no more bytes than a page
// has, the oldest first.
func TestWhatIsHandedIsWhatIsAskedFor(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		first, second := h.waitFor(f, 2, "order"), h.waitFor(f, 2, "order")
		var tx store.Tx
		for i := range 3 {
			for j := range 3 {
				m := message(fmt.Sprint("k", i))
				m.ID = fmt.Sprint(j)
				tx.Put = append(tx.Put, m)
			}
		}
		if err := f.Commit(h.Context(), &tx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !first.done || !second.done || len(first.claims) != 2 || len(second.claims) != 1 {
			t.Fatalf("claimed %v and %v", first.claims, second.claims)
		}
		for _, c := range append(first.claims, second.claims...) {
			if len(c.Messages) != 2 || c.Messages[0].ID != "0" || c.Messages[1].ID != "1" {
				t.Errorf("delivered %v", c.Messages)
			}
		}

		large := h.waitFor(f, 1, "order")
		tx = store.Tx{}
		for i := range 5 {
			m := message("large")
			m.ID, m.Body = fmt.Sprint(i), bytes.Repeat([]byte{1}, store.MaxBody)
			tx.Put = append(tx.Put, m)
		}
		req := request(time.Hour)
		page := &claiming{}
		req.Queue = "pages"
		go func() {
			page.claims, page.err = f.Claim(h.Context(), req)
			page.done = true
		}()
		synctest.Wait()
		for i := range tx.Put {
			tx.Put[i].Key.Queue = "pages"
		}
		if err := f.Commit(h.Context(), &tx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !page.done || len(page.claims) != 1 || len(page.claims[0].Messages) != store.PageBytes/store.MaxBody {
			t.Errorf("delivered %d messages", len(page.claims[0].Messages))
		}
		if large.done {
			t.Errorf("who waits in another queue got %v", large.claims)
		}
	})
}

// TestGroupsHaveAnEnd: in calls, and in bytes.
func TestGroupsHaveAnEnd(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := New(Options{MaxGroup: 10})
		f.Start(h.db)
		defer f.CloseCore()
		for _, c := range []struct{ body, calls, groups int }{{0, 95, 10}, {store.MaxBody, 9, 3}} {
			hold := make(chan struct{})
			h.db.fail(func(*ReadSet) error {
				h.db.fail(nil, nil)
				<-hold
				return nil
			}, nil)
			go h.put(f, fmt.Sprint("first", c.body))
			synctest.Wait()
			updates := h.db.updates.Load()
			for i := range c.calls {
				go h.put(f, fmt.Sprint("k", i, c.body), func(m *store.Message) { m.Body = make([]byte, c.body) })
			}
			synctest.Wait()
			close(hold)
			synctest.Wait()
			h.same(fmt.Sprintf("groups of %d calls with %d bytes", c.calls, c.body), h.db.updates.Load()-updates, int64(c.groups))
		}
	})
}

// TestRecordsAreReadAgain: a hint was lost, and nothing is read in between.
func TestRecordsAreReadAgain(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		found := h.await(a, instance, 0)
		h.putRecord(b, instance)
		<-time.After(30 * time.Second)
		h.version("after a poll", found(), 1)

		h.putRecord(a, instance)
		h.putRecord(b, instance)
		h.db.hintsDown.Store(true)
		h.version("without hints", h.await(a, instance, 2)(), 3)
		if len(a.records.awaits) > 0 {
			t.Errorf("%d records are awaited by nobody", len(a.records.awaits))
		}
		for i := range 3 * generationSize {
			a.records.versions.put(int64(i), 1)
		}
		if n := len(a.records.versions.young) + len(a.records.versions.old); n > 2*generationSize {
			t.Errorf("%d versions are cached", n)
		}
	})
}

// TestPolls: more and more seldom while nothing is found, and not at all while nobody waits.
func TestPolls(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsDown.Store(true)
		c := h.claim(h.Context(), a, time.Hour)
		looks := h.db.looks.Load()
		<-time.After(time.Minute)
		if n := h.db.looks.Load() - looks; n < 60 || n > 66 {
			t.Errorf("%d looks in a minute", n)
		}
		h.put(b, "k", func(m *store.Message) { m.VisibleAt = time.Now().Add(time.Minute) })
		looks = h.db.looks.Load()
		<-time.After(2 * time.Second)
		if n := h.db.looks.Load() - looks; n < 4 {
			t.Errorf("%d looks in two seconds, of which one found something", n)
		}
		<-time.After(time.Minute)
		h.got(c, "k")
		<-time.After(time.Minute)
		looks = h.db.looks.Load()
		<-time.After(time.Hour)
		h.same("looks while nobody waits", h.db.looks.Load()-looks, 0)
		if a.polls.active {
			t.Error("it keeps polling while no call waits")
		}
	})
}

// TestPollsFindWhatExpires: another process puts a message that nobody tells of.
func TestPollsFindWhatExpires(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.db.hintsLost.Store(true)
		h.claim(h.Context(), a, time.Hour)
		h.put(b, "k", routeless(15*time.Second))
		<-time.After(30 * time.Second)
		synctest.Wait()
		h.same("in quarantine", h.quarantined(), 1)
	})
}

// jumping is a clock that can be set.
type jumping struct {
	base.System
	by atomic.Int64
}

func (c *jumping) Now() time.Time { return c.System.Now().Add(time.Duration(c.by.Load())) }

// TestClockThatIsSet: what is due by the new time is served soon, not when a timer of the old
// one goes off.
func TestClockThatIsSet(t *testing.T) {
	withFixture(t, func(h *fixture) {
		clock := &jumping{}
		h.db.clock = clock
		f := New(Options{Clock: clock})
		f.Start(h.db)
		defer f.CloseCore()
		h.put(f, "k", func(m *store.Message) { m.VisibleAt = time.Now().Add(10 * time.Hour) })
		c := h.claim(h.Context(), f, 100*time.Hour)
		clock.by.Store(int64(10 * time.Hour))
		<-time.After(maxTimer * time.Millisecond)
		h.got(c, "k")
	})
}

// wallSet is a clock whose wall reading was set back, and whose monotonic one was not.
type wallSet struct {
	base.System
	seconds atomic.Int64
}

func (c *wallSet) Now() time.Time {
	t := c.System.Now()
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(c.seconds.Load()) << 30 // the first word: see package time
	return t
}

// TestWallClockThatIsSetBack: the time of the database advances as it would have.
func TestWallClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	clock := &wallSet{}
	f := New(Options{Clock: clock})
	const now = 1_000_000
	f.time.answer(f.time.ask(), now)
	clock.seconds.Store(3600)
	if set := time.Since(clock.Now().Round(0)); set < time.Hour-time.Minute {
		t.Fatalf("the wall clock was set back by %v", set)
	}
	deadline := time.Now().Add(10 * time.Second)
	for f.time.now() < now+10 {
		if time.Now().After(deadline) {
			t.Fatalf("the time is %d, %v after it was %d", f.time.now(), 10*time.Second, now)
		}
		<-time.After(time.Millisecond)
	}
}

// TestDatabaseClockThatIsSetBack: the core follows it, an answer that comes late is not taken
// for it, and an answer of the clock that was wrong does not undo it.
func TestDatabaseClockThatIsSetBack(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		const day = 24 * 60 * 60 * 1000
		now := time.Now().UnixMilli()
		observe := f.time.answer
		wantNow := func(what string, want int64) {
			h.Helper()
			if got := f.time.now(); got != want {
				h.Errorf("%s: the time is %d ms off", what, got-want)
			}
		}
		observe(f.time.ask(), now)
		late := f.time.ask()
		observe(f.time.ask(), now+60_000)
		observe(late, now)
		wantNow("after a late answer", now+60_000)

		wrong := f.time.ask()
		observe(f.time.ask(), now+day)
		wantNow("after the clock was set ahead", now+day)
		observe(f.time.ask(), now+60_001)
		wantNow("after it was set back", now+60_001)
		observe(wrong, now+day+1)
		wantNow("after a late answer of the wrong clock", now+60_001)
	})
}

// TestVerdictsAreThoseOfTheLastTry: what was decided before is forgotten.
func TestVerdictsAreThoseOfTheLastTry(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k")
		c := h.claim(h.Context(), f, 0)
		h.got(c, "k")
		made := store.Lease{Key: message("k").Key, Token: "made up"}
		renew := newCall(h.Context(), operation{renew: &renewal{lease: made, d: time.Hour}}, 0)
		put := newCall(h.Context(), operation{tx: &store.Tx{
			PutRecords: []store.PutRecord{{Record: store.Record{Key: instance}, Expect: 1}},
		}}, 0)
		h.db.failDecidedWith(fmt.Errorf("deadlock: %w", ErrRetry))
		h.db.beforeDecidedFail(func() {
			h.db.failDecidedWith(nil)
			h.putRecord(f, instance) // by the other writer
		})
		f.run([]*call{renew, put}, &trial{began: f.clock.Now()})
		if put.err != nil || !renew.renew.lost {
			t.Errorf("put: %v; lost: %v", put.err, renew.renew.lost)
		}
	})
}

// TestCallThatEndedBeforeItBeganIsNotDone: nobody waits for it.
func TestCallThatEndedBeforeItBeganIsNotDone(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := New(Options{})
		f.Start(h.db)
		defer f.CloseCore()
		h.put(f, "k")
		c := h.claim(h.Context(), f, 0)
		hold := make(chan struct{})
		h.db.fail(func(*ReadSet) error {
			h.db.fail(nil, nil)
			<-hold
			return nil
		}, nil)
		go h.put(f, "first")
		synctest.Wait()
		err := f.releaseBriefly(h, c.claims[0].Lease())
		close(hold)
		synctest.Wait()
		if row := h.db.keys[IDOf(message("k").Key)]; err == nil || row.Token == "" {
			t.Errorf("release: %v, and the token is %q", err, row.Token)
		}
	})
}

// releaseBriefly releases a lease with a context that ends while others are served.
func (f *Core) releaseBriefly(h *fixture, l store.Lease) error {
	ctx, cancel := context.WithTimeout(h.Context(), time.Millisecond)
	defer cancel()
	return f.Release(ctx, store.Release{Lease: l})
}

// TestLaxCallsAreAnsweredFromWhatIsKnown: a call that is made every second does not look
// into the database each time, and gets what is there all the same.
func TestLaxCallsAreAnsweredFromWhatIsKnown(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		req := request(0)
		req.Lax = true
		claim := func() int {
			h.Helper()
			claims, err := a.Claim(h.Context(), req)
			if err != nil {
				h.Error(err)
			}
			for i := range claims {
				if err := a.Commit(h.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[i].Lease()}}}); err != nil {
					h.Error(err)
				}
			}
			return len(claims)
		}
		h.put(b, "first")
		h.same("what was there before", int64(claim()), 1)
		ask := func(d time.Duration) (picks, got int64) {
			before := h.db.picks.Load()
			for end := time.Now().Add(d); time.Now().Before(end); {
				<-time.After(time.Second)
				got += int64(claim())
			}
			return h.db.picks.Load() - before, got
		}
		picks, got := ask(10 * time.Minute)
		if picks > 2 || got != 0 {
			h.Errorf("%d picks, and %d claimed in 10 minutes, want hardly any, and nothing", picks, got)
		}

		h.put(b, "second") // with a hint
		synctest.Wait()
		h.same("what another process told of", int64(claim()), 1)

		h.put(a, "later", func(m *store.Message) { m.VisibleAt = time.Now().Add(5 * time.Second) })
		if _, got := ask(6 * time.Second); got != 1 {
			h.Errorf("%d claimed, want what was for later", got)
		}

		h.db.hintsLost.Store(true)
		h.put(b, "third")
		if _, got := ask(31 * time.Second); got != 1 {
			h.Errorf("%d claimed, want what nobody told of", got)
		}

		h.db.hintsDown.Store(true)
		h.put(b, "fourth")
		h.same("what nobody could tell of", int64(claim()), 1)

		h.db.hintsDown.Store(false)
		<-time.After(time.Minute)
		looks := h.db.looks.Load()
		<-time.After(time.Hour)
		h.same("looks when nobody asks any more", h.db.looks.Load()-looks, 0)
	})
}
