package rows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
)

// TestSlicesAreTheCallersWhenACallHasReturned: a context ends while the group is under way,
// and the caller uses its buffers for something else.
func TestSlicesAreTheCallersWhenACallHasReturned(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		ctx, cancel := context.WithCancel(h.Context())
		hold := make(chan struct{})
		h.db.fail(func(*ReadSet) error {
			h.db.fail(nil, nil)
			cancel()
			<-hold
			return nil
		}, nil)
		m, entry := message("k"), []byte("entry")
		tags, body := map[string]string{"tag": "value"}, []byte("record")
		tx := &store.Tx{
			Put: []store.Message{m}, Append: []store.Append{{Key: m.Key, Entries: [][]byte{entry}}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: instance, Tags: tags, Body: body}}},
		}
		if err := f.Commit(ctx, tx); !errors.Is(err, context.Canceled) {
			t.Fatalf("commit: %v", err)
		}
		tx.Put[0].ID, tx.Append[0].Entries[0] = "other", nil
		for _, b := range [][]byte{m.Body, entry, body} {
			clear(b)
		}
		clear(tags)
		close(hold)
		synctest.Wait()
		c := h.claim(h.Context(), f, 0)
		h.got(c, "k")
		if got := c.claims[0].Messages[0]; got.ID != "1" || string(got.Body) != "k" {
			t.Errorf("message %q with body %q", got.ID, got.Body)
		}
		if e := h.db.entries[IDOf(m.Key)][0]; string(e) != "entry" {
			t.Errorf("entry %q", e)
		}
		if r := h.db.records[instance]; string(r.Body) != "record" || r.Tags["tag"] != "value" {
			t.Errorf("record %q with tags %v", r.Body, r.Tags)
		}
	})
}

// TestLeasesAreTheCallersWhenRenewHasReturned is the same for Renew.
func TestLeasesAreTheCallersWhenRenewHasReturned(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k")
		c := h.claim(h.Context(), f, 0)
		h.got(c, "k")
		ctx, cancel := context.WithCancel(h.Context())
		hold := make(chan struct{})
		h.db.fail(func(*ReadSet) error {
			h.db.fail(nil, nil)
			cancel()
			<-hold
			return nil
		}, nil)
		leases := []store.Lease{c.claims[0].Lease()}
		if _, err := f.Renew(ctx, time.Hour, leases); !errors.Is(err, context.Canceled) {
			t.Fatalf("renew: %v", err)
		}
		clear(leases)
		close(hold)
		synctest.Wait()
		if row := h.db.keys[IDOf(message("k").Key)]; row.Until != time.Now().Add(time.Hour).UnixMilli() {
			t.Errorf("the lease ends at %v", store.FromMillis(row.Until))
		}
	})
}

// TestCopiesAreNotShared: who awaits a record, and who claims what is put, get slices of
// their own.
func TestCopiesAreNotShared(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		one, other := h.await(f, instance, 0), h.await(f, instance, 0)
		c := h.claim(h.Context(), f, time.Hour)
		m := message("k")
		tx := &store.Tx{
			Put:        []store.Message{m},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: instance, Body: []byte("record"), Tags: map[string]string{"a": "b"}}}},
		}
		if err := f.Commit(h.Context(), tx); err != nil {
			t.Fatal(err)
		}
		h.got(c, "k")
		clear(one().Body)
		clear(one().Tags)
		clear(c.claims[0].Messages[0].Body)
		if r := other(); string(r.Body) != "record" || r.Tags["a"] != "b" {
			t.Errorf("record %q with tags %v", r.Body, r.Tags)
		}
		if string(m.Body) != "k" || string(tx.PutRecords[0].Record.Body) != "record" {
			t.Errorf("what the caller gave is %q and %q", m.Body, tx.PutRecords[0].Record.Body)
		}
	})
}

// TestCallThatEndsDuringALookLeavesNoLease: also one that would not have waited.
func TestCallThatEndsDuringALookLeavesNoLease(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint("wait ", wait), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				f := h.open()
				h.put(f, "k")
				ctx, cancel := context.WithCancel(h.Context())
				hold := make(chan struct{})
				h.db.onPick(func(*LeaseResult) {
					h.db.onPick(nil)
					cancel()
					<-hold
				})
				c := h.claim(ctx, f, wait)
				if !c.done || !errors.Is(c.err, context.Canceled) {
					t.Fatalf("returned %v, with %v", c.done, c.err)
				}
				close(hold)
				synctest.Wait()
				h.got(h.claim(h.Context(), f, 0), "k") // as its first attempt
			})
		})
	}
}

// TestCloseDuringALookLeavesNoLease: another process has it at once.
func TestCloseDuringALookLeavesNoLease(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		h.put(a, "k")
		hold := make(chan struct{})
		h.db.onPick(func(*LeaseResult) {
			h.db.onPick(nil)
			<-hold
		})
		c := h.claim(h.Context(), a, time.Hour)
		go a.CloseCore()
		synctest.Wait()
		close(hold)
		synctest.Wait()
		if !c.done || !errors.Is(c.err, store.ErrClosed) {
			t.Fatalf("returned %v, with %v and %v", c.done, c.claims, c.err)
		}
		h.got(h.claim(h.Context(), b, 0), "k")
	})
}

// TestCloseWhileAGroupHandsLeavesNoLease is the same for what a commit leased.
func TestCloseWhileAGroupHandsLeavesNoLease(t *testing.T) {
	withFixture(t, func(h *fixture) {
		a, b := h.open(), h.open()
		c := h.claim(h.Context(), a, time.Hour)
		h.db.fail(nil, func() error {
			h.db.fail(nil, nil)
			go a.CloseCore()
			synctest.Wait()
			return nil
		})
		h.put(a, "k")
		synctest.Wait()
		if !c.done || !errors.Is(c.err, store.ErrClosed) {
			t.Fatalf("returned %v, with %v and %v", c.done, c.claims, c.err)
		}
		h.got(h.claim(h.Context(), b, 0), "k")
	})
}

// TestCloseDoesNotWaitForALookForEver: it is torn after a while.
func TestCloseDoesNotWaitForALookForEver(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		hung := &hanging{Database: h.db}
		f.db = hung
		c := h.claim(h.Context(), f, time.Hour)
		begun := time.Now()
		f.CloseCore()
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if !c.done || !errors.Is(c.err, store.ErrClosed) {
			t.Errorf("returned %v, with %v", c.done, c.err)
		}
	})
}

// hanging is a database that does not answer.
type hanging struct{ Database }

func (*hanging) LeaseReady(ctx context.Context, _ *LeaseRequest) (*LeaseResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// worn puts a message that was delivered once already.
func (h *fixture) exhaust(f *Core, name string) {
	h.Helper()
	h.put(f, name)
	h.got(h.claim(h.Context(), f, 0), name)
	<-time.After(time.Minute)
}

func (h *fixture) once(f *Core, lease time.Duration) ([]store.Claim, error) {
	req := request(0)
	req.MaxAttempts, req.Lease = 1, lease
	return f.Claim(h.Context(), req)
}

func (h *fixture) quarantined() (n int64) {
	h.db.tables.mu.Lock()
	defer h.db.tables.mu.Unlock()
	for key := range h.db.records {
		if key.Kind == store.KindQuarantine {
			n++
		}
	}
	return n
}

// TestWhatIsPutAgainDoesNotGoToQuarantine: between the look that found a message which was
// delivered too often, and its way to quarantine, it is deleted and another one is put
// under its ID.
func TestWhatIsPutAgainDoesNotGoToQuarantine(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.exhaust(f, "k")
		h.put(f, "k", func(m *store.Message) { m.ID, m.VisibleAt = "later", time.Now().Add(time.Hour) })
		h.db.onPick(func(*LeaseResult) {
			h.db.onPick(nil)
			m := message("k")
			tx := &store.Tx{Delete: []store.MessageRef{m.Ref()}}
			if err := f.Commit(h.Context(), tx); err != nil {
				t.Error(err)
			}
			h.put(f, "k")
		})
		claims, err := h.once(f, time.Minute)
		if err != nil || len(claims) != 1 || claims[0].Messages[0].ID != "1" {
			t.Errorf("claimed %v, %v", claims, err)
		}
		h.same("in quarantine", h.quarantined(), 0)
	})
}

// TestShortestLeaseGetsToQuarantine: the lease is over before the message is there.
func TestShortestLeaseGetsToQuarantine(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.exhaust(f, "k")
		h.db.fail(func(*ReadSet) error {
			<-time.After(10 * time.Millisecond)
			return nil
		}, nil)
		picks := h.db.picks.Load()
		if claims, err := h.once(f, time.Millisecond); err != nil || len(claims) > 0 {
			t.Errorf("claimed %v, %v", claims, err)
		}
		h.same("in quarantine", h.quarantined(), 1)
		h.same("picks", h.db.picks.Load()-picks, 2)
	})
}

// TestManyGoToQuarantineTogether: not one commit after another, while the leases of the
// others run out.
func TestManyGoToQuarantineTogether(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		for i := range 10 {
			h.put(f, fmt.Sprint("k", i))
		}
		if claims, err := f.Claim(h.Context(), request(0)); len(claims) != 10 || err != nil {
			t.Fatal(claims, err)
		}
		<-time.After(time.Minute)
		updates := h.db.updates.Load()
		if claims, err := h.once(f, time.Minute); err != nil || len(claims) > 0 {
			t.Errorf("claimed %v, %v", claims, err)
		}
		h.same("in quarantine", h.quarantined(), 10)
		if n := h.db.updates.Load() - updates; n > 2 {
			t.Errorf("%d updates", n)
		}
	})
}

// TestQuarantineThatFailsLeavesNoLease: the call fails, and gives back all that it leased.
func TestQuarantineThatFailsLeavesNoLease(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.exhaust(f, "k")
		h.put(f, "l")
		bad := errors.New("broken")
		h.db.fail(func(*ReadSet) error {
			h.db.fail(nil, nil)
			return bad
		}, nil)
		if claims, err := h.once(f, time.Hour); !errors.Is(err, bad) || len(claims) > 0 {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		synctest.Wait()
		claims, err := h.once(f, time.Hour)
		if err != nil || len(claims) != 1 || claims[0].Key.Name != "l" || claims[0].Attempt() != 1 {
			t.Errorf("claimed %v, %v", claims, err)
		}
		h.same("in quarantine", h.quarantined(), 1)
	})
}

// TestHoldWaitsForWhatIsUnderWay: after it nothing changes by itself.
func TestHoldWaitsForWhatIsUnderWay(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		h.put(f, "k", func(m *store.Message) { m.Route, m.TTL = "", time.Second })
		<-time.After(time.Second)
		h.db.fail(func(*ReadSet) error {
			<-time.After(time.Second)
			return nil
		}, nil)
		h.claim(h.Context(), f, 0) // sweeps
		f.Hold(true)
		h.same("in quarantine when it returns", h.quarantined(), 1)

		h.db.fail(nil, nil)
		h.put(f, "l", func(m *store.Message) { m.Route, m.TTL = "", time.Second })
		c := h.claim(h.Context(), f, time.Hour)
		picks := h.db.picks.Load()
		<-time.After(time.Minute)
		h.same("in quarantine while it holds", h.quarantined(), 1)
		if n := h.db.picks.Load() - picks; n > 0 {
			t.Errorf("%d picks while it holds", n)
		}
		f.Hold(false)
		synctest.Wait()
		h.same("in quarantine after it", h.quarantined(), 2)
		h.put(f, "m")
		h.got(c, "m")
	})
}

// TestLanesThatNobodyAsksForAreForgotten: what is known does not grow without end.
func TestLanesThatNobodyAsksForAreForgotten(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.open()
		c := h.claim(h.Context(), f, time.Hour)
		req := request(0)
		req.Routes = make([]string, 1000)
		for i := range 60 {
			for j := range req.Routes {
				req.Routes[j] = fmt.Sprint("route ", i, " ", j)
			}
			req.Queue, req.Routes[0] = "turns", "order"
			if i%2 == 0 {
				req.Queue = fmt.Sprint("queue ", i)
			}
			if _, err := f.Claim(h.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		if len(f.claims.partitions) > 2*keepPartitions || len(f.claims.queues) > 25 {
			t.Errorf("%d partitions and %d queues are cached", len(f.claims.partitions), len(f.claims.queues))
		}
		if n := len(f.claims.partitions[PartitionOf("turns", "order")].subscriptions); n > 25 {
			t.Errorf("a partition is in %d subscriptions", n)
		}
		h.put(f, "k")
		h.got(c, "k")
	})
}
