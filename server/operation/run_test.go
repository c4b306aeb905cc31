package operation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestAThousandAreDeleted by two processes on one store, each of them once, a few at a time.
func TestAThousandAreDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(quick, "acme", "a", 1000)
		r.start(long, "acme", "b", 10)
		r.client.before = func(string, abide.Ref) error {
			<-time.After(time.Millisecond)
			return nil
		}
		o := r.begin(operation.Request{Kind: operation.Delete, Filter: of("acme")})
		r.run(r.Service)
		r.run(r.service(r.Store, abide.ClientOver(r.client, nil)))
		rig.Pass(time.Minute)
		r.wantCounts(o.ID, "completed: 1010 = 1000 + 10 + 0")
		r.wantStatuses("acme", "10 running")
		if calls, instances := r.client.total(); calls != 1000 || instances != 1000 {
			t.Errorf("%d calls for %d instances", calls, instances)
		}
		if r.client.most < 2 || r.client.most > 32 {
			t.Errorf("%d at a time in two processes", r.client.most)
		}
	})
}

// TestManyOperationsInTwoProcesses: each goes through its instances once.
func TestManyOperationsInTwoProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		var ids []string
		for i := range 6 {
			tenant := fmt.Sprint("tenant ", i)
			r.start(long, tenant, "a", 100)
			ids = append(ids, r.begin(operation.Request{Kind: operation.Terminate, Filter: of(tenant)}).ID)
		}
		r.run(r.Service)
		r.run(r.service(r.Store, abide.ClientOver(r.client, nil)))
		rig.Pass(time.Minute)
		for _, id := range ids {
			r.wantCounts(id, "completed: 100 = 100 + 0 + 0")
		}
		if calls, instances := r.client.total(); calls != 600 || instances != 600 {
			t.Errorf("%d calls for %d instances", calls, instances)
		}
	})
}

// TestASmallOperationDoesNotWaitForALargeOne, however many large ones there are.
func TestASmallOperationDoesNotWaitForALargeOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		for i := range 5 {
			r.start(long, fmt.Sprint("large ", i), "a", 520, abide.StartAfter(time.Hour))
		}
		r.start(long, "small", "a", 5)
		r.client.before = func(_ string, ref abide.Ref) error {
			<-time.After(10 * time.Millisecond)
			if ref.Tenant != "small" {
				return abide.ErrState // so that the engine has less to do
			}
			return nil
		}
		r.run(r.Service)
		var large []string
		for i := range 5 {
			large = append(large, r.begin(operation.Request{Kind: operation.Suspend, Filter: of(fmt.Sprint("large ", i))}).ID)
		}
		rig.Pass(100 * time.Millisecond)
		small := r.begin(operation.Request{Kind: operation.Suspend, Filter: of("small")})
		rig.Pass(900 * time.Millisecond) // all of them take 1.6 s
		r.wantCounts(small.ID, "completed: 5 = 5 + 0 + 0")
		for _, id := range large {
			if o := r.get(id); o.Status.Ended() || o.Total != 520 && o.Status == operation.Running {
				t.Errorf("a large one is %s, with %d in all", o.Status, o.Total)
			}
		}
		rig.Pass(time.Minute)
		for _, id := range large {
			r.wantCounts(id, "completed: 520 = 0 + 520 + 0")
		}
		check.Equal(t, "at a time", r.client.most, 16)
	})
}

// TestAnOperationIsCancelledInTheMiddle: by who runs it or by another process. No more is
// done after that, and all that was done is counted.
func TestAnOperationIsCancelledInTheMiddle(t *testing.T) {
	for name, here := range map[string]bool{"by who runs it": true, "by another process": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				r.start(long, "acme", "a", 1200)
				r.client.before = func(string, abide.Ref) error {
					<-time.After(100 * time.Millisecond)
					return nil
				}
				by := r.Service
				if !here {
					by = r.service(r.Store, abide.ClientOver(r.client, nil))
				}
				r.run(r.Service)
				o := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
				rig.Pass(3 * time.Second)
				if got := r.get(o.ID); got.Status != operation.Running || got.Done == 0 || got.Done%256 != 0 {
					t.Errorf("after a while it is %s", counts(got))
				}
				stopped, err := by.Cancel(t.Context(), "acme", o.ID)
				if err != nil || stopped.Status != operation.Cancelled || stopped.EndedAt.IsZero() {
					t.Errorf("it is %s, %v", stopped.Status, err)
				}
				before, _ := r.client.total()
				rig.Pass(11 * time.Second) // in which another process learns of it
				after, _ := r.client.total()
				if here && after > before+16 {
					t.Errorf("%d calls when it was cancelled, and %d after that", before, after)
				}
				rig.Pass(time.Minute)
				if now, _ := r.client.total(); now != after || now > 1199 {
					t.Errorf("%d calls, and %d a minute later", after, now)
				}
				got := r.get(o.ID)
				r.wantStatuses("acme", fmt.Sprintf("%d running, %d terminated", 1200-got.Done, got.Done))
				if got.Status != operation.Cancelled || got.Matched != got.Done || got.Done < 256 || here && got.Done%256 == 0 {
					t.Errorf("it is %s, and there were %d calls", counts(got), after)
				}
				again, err := r.Cancel(t.Context(), "acme", o.ID)
				if err != nil || again.EndedAt != got.EndedAt {
					t.Errorf("the second time: %+v, %v", again, err)
				}
			})
		})
	}
}

func TestCancelBeforeAndAfter(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 5)
		o := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		_, err := r.Cancel(t.Context(), "acme", o.ID)
		check.OK(r.T, err)
		r.run(r.Service)
		rig.Pass(time.Second)
		r.wantCounts(o.ID, "cancelled: 0 = 0 + 0 + 0")
		r.wantStatuses("acme", "5 running")
		o = r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		rig.Pass(time.Second)
		_, err = r.Cancel(t.Context(), "acme", o.ID)
		check.Error(t, err, operation.ErrState, "completed", o.ID)
		_, err = r.Cancel(t.Context(), "acme", "none")
		check.Error(t, err, operation.ErrNotFound, "none")
	})
}

// TestNoneIsRestartedTwice, although those that were have ended again when the operation comes
// by once more.
func TestNoneIsRestartedTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(quick, "acme", "a", 700)
		o := r.begin(operation.Request{Kind: operation.Restart, Filter: of("acme")})
		r.run(r.Service)
		rig.Pass(time.Minute)
		got := r.get(o.ID)
		if got.Status != operation.Completed || got.Done != 700 {
			t.Errorf("it is %s", counts(got))
		}
		if calls, instances := r.client.total(); calls != 700 || instances != 700 {
			t.Errorf("%d calls for %d instances", calls, instances)
		}
		r.wantStatuses("acme", "700 completed")
	})
}

// TestWhatDoesNotWorkIsCounted, with the first few errors, and does not keep the others from
// being done.
func TestWhatDoesNotWorkIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 300)
		odd := errors.New("something odd: " + strings.Repeat("ä", 1000))
		tried := atomic.Int64{}
		r.client.before = func(_ string, ref abide.Ref) error {
			switch {
			case strings.HasSuffix(ref.ID, "7"):
				return fmt.Errorf("no: %w", abide.ErrInvalid)
			case ref.ID == "a0000":
				tried.Add(1)
				return odd
			case ref.ID == "a0001":
				return abide.ErrNotFound
			case ref.ID == "a0002":
				return abide.ErrState
			case ref.ID == "a0003" && tried.Add(0) < 2:
				return odd // which passes
			}
			return nil
		}
		o := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		r.run(r.Service)
		rig.Pass(time.Minute)
		r.wantCounts(o.ID, "completed: 300 = 267 + 2 + 31")
		got := r.get(o.ID)
		if len(got.Errors) != operation.MaxErrors || got.Errors[0].Ref != (abide.Ref{Tenant: "acme", ID: "a0000"}) || got.Errors[1].Ref.ID != "a0007" {
			t.Errorf("its errors are %v", got.Errors)
		}
		if text := got.Errors[0].Error; len(text) > operation.MaxError || !strings.HasPrefix(odd.Error(), text) || len(text) < 500 {
			t.Errorf("the first one is %q", text)
		}
		if n := tried.Load(); n < 3 || n > 12 {
			t.Errorf("what may pass was tried %d times", n)
		}
	})
}

// TestTroubleOfTheStoreIsNotTheInstances: it is waited for, however long it takes.
func TestTroubleOfTheStoreIsNotTheInstances(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 300)
		faulty := storetest.NewFaulty(r.Store, nil)
		client := &watched{Transport: abide.NewClient(faulty, nil).Transport(), calls: map[string]int{}}
		done := atomic.Int64{}
		client.before = func(string, abide.Ref) error {
			if done.Add(1) == 100 {
				faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
				time.AfterFunc(20*time.Second, func() { faulty.Plan(nil) })
			}
			return nil
		}
		o := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		r.run(r.service(faulty, abide.ClientOver(client, nil)))
		rig.Pass(2 * time.Minute)
		got := r.get(o.ID)
		if got.Status != operation.Completed || got.Failed != 0 || got.Done+got.Skipped != 300 {
			t.Errorf("it is %s: %v", counts(got), got.Errors)
		}
		r.wantStatuses("acme", "300 terminated")
	})
}

// full is a store that has no room until it is given some.
type full struct {
	store.Store
	until time.Time
}

func (f *full) Commit(ctx context.Context, tx *store.Tx) error {
	if time.Now().Before(f.until) {
		return fmt.Errorf("no room: %w", store.ErrFull)
	}
	return f.Store.Commit(ctx, tx)
}

// TestAFullStoreIsNotTheInstances: they wait until there is room.
func TestAFullStoreIsNotTheInstances(t *testing.T) {
	bubble(t, func(_ *testing.T, r *fixture) {
		r.start(long, "acme", "a", 100)
		o := r.begin(operation.Request{Kind: operation.Terminate, Filter: of("acme")})
		crammed := &full{Store: r.Store, until: time.Now().Add(10 * time.Minute)}
		r.run(r.service(crammed, abide.NewClient(crammed, nil)))
		rig.Pass(time.Hour)
		r.wantCounts(o.ID, "completed: 100 = 100 + 0 + 0")
	})
}

// TestAStoreThatIsClosedEndsIt: soon, and in the middle of a page, which is not counted.
func TestAStoreThatIsClosedEndsIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 200)
		r.begin(operation.Request{Kind: operation.Suspend, Filter: of("acme")})
		n := atomic.Int64{}
		r.client.before = func(string, abide.Ref) error {
			if n.Add(1) == 100 {
				_ = r.Store.Close()
			}
			return nil
		}
		began := time.Now()
		check.Error(t, r.Run(context.Background()), store.ErrClosed)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestWhatCannotBeListedFailsTheOperation, and it says why.
func TestWhatCannotBeListedFailsTheOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 3)
		rec, err := r.Store.Get(t.Context(), store.RecordKey{Kind: "instance", Tenant: "acme", ID: "a0001"})
		check.OK(r.T, err)
		rec.Body = []byte("garbage")
		check.OK(r.T, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: rec, Expect: rec.Version}}}))
		o := r.begin(operation.Request{Kind: operation.Cancel, Filter: of("acme")})
		r.run(r.Service)
		rig.Pass(time.Second)
		got := r.get(o.ID)
		if got.Status != operation.Failed || !strings.Contains(got.Error, "a0001") || got.EndedAt.IsZero() {
			t.Errorf("it is %s: %q", got.Status, got.Error)
		}
		_, err = r.Cancel(t.Context(), "acme", o.ID)
		check.Error(t, err, operation.ErrState, "failed")
	})
}

// TestStopLetsAPageComeToItsEnd, so that all is counted; but it does not wait for ever.
func TestStopLetsAPageComeToItsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration // one instance
		stops time.Duration // at most
		exact bool
	}{
		"fast": {20 * time.Millisecond, time.Second, true},
		"slow": {time.Second, 11 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				r.start(long, "acme", "a", 600)
				r.client.before = func(string, abide.Ref) error {
					<-time.After(tt.takes)
					return nil
				}
				o := r.begin(operation.Request{Kind: operation.Suspend, Filter: of("acme")})
				stop := r.run(r.Service)
				rig.Pass(500 * time.Millisecond)
				began := time.Now()
				stop()
				if took := time.Since(began); took > tt.stops {
					t.Errorf("it took %v to stop", took)
				}
				calls, _ := r.client.total()
				if got := r.get(o.ID); tt.exact && (got.Done != calls || calls == 0 || calls == 600) {
					t.Errorf("it has stopped at %s, and there were %d calls", counts(got), calls)
				}
				r.run(r.service(r.Store, abide.ClientOver(r.client, nil)))
				rig.Pass(time.Minute)
				got := r.get(o.ID)
				if got.Status != operation.Completed || got.Done+got.Skipped != 600 || tt.exact && got.Skipped > 0 {
					t.Errorf("in the end it is %s", counts(got))
				}
				r.wantStatuses("acme", "600 suspended")
			})
		})
	}
}

// TestAPageThatKillsItsProcessEachTimeFailsInTheEnd.
func TestAPageThatKillsItsProcessEachTimeFailsInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 10)
		o := r.begin(operation.Request{Kind: operation.Suspend, Filter: of("acme")})
		deaths := 0
		for range 20 {
			faulty := storetest.NewFaulty(r.Store, nil)
			client := &watched{Transport: abide.NewClient(faulty, nil).Transport(), calls: map[string]int{}}
			var once sync.Once
			client.before = func(string, abide.Ref) error {
				once.Do(func() {
					deaths++
					faulty.Kill()
				})
				return nil
			}
			service := r.service(faulty, abide.ClientOver(client, nil))
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = service.Run(ctx)
			}()
			rig.Pass(time.Minute)
			cancel()
			<-done
		}
		if got := r.get(o.ID); got.Status != operation.Failed || !strings.Contains(got.Error, "10 times") || deaths != 10 {
			t.Errorf("after %d deaths it is %s: %q", deaths, got.Status, got.Error)
		}
	})
}

// TestWhatCannotBeReadGoesToQuarantine, and other operations go on.
func TestWhatCannotBeReadGoesToQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.start(long, "acme", "a", 3)
		bad := r.begin(operation.Request{Kind: operation.Suspend, Filter: of("acme")})
		rec, err := r.Store.Get(t.Context(), store.RecordKey{Kind: "operation", Tenant: "acme", ID: bad.ID})
		check.OK(r.T, err)
		rec.Body = append(rec.Body, "garbage"...)
		check.OK(r.T, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: rec, Expect: rec.Version}}}))
		good := r.begin(operation.Request{Kind: operation.Suspend, Filter: of("acme")})
		r.run(r.Service)
		rig.Pass(time.Second)
		r.wantCounts(good.ID, "completed: 3 = 3 + 0 + 0")
		_, err = r.Get(t.Context(), "acme", bad.ID)
		check.Error(t, err, store.ErrCorrupt, bad.ID)
		page, err := r.Store.List(t.Context(), store.Query{Kind: store.KindQuarantine})
		check.OK(r.T, err)
		if len(page.Records) != 1 || page.Records[0].Status != "malformed" || page.Records[0].Name != "operations" {
			t.Errorf("quarantine has %v", page.Records)
		}
	})
}

// TestIdleIsIdle: nothing is asked of the store when there is nothing to do.
func TestIdleIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		faulty := storetest.NewFaulty(r.Store, nil)
		r.run(r.service(faulty, abide.ClientOver(r.client, nil)))
		rig.Pass(time.Hour)
		if n := faulty.Calls(); n > 40 {
			t.Errorf("%d calls in an hour", n)
		}
		synctest.Wait()
	})
}
