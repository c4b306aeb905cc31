package demo

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// TestAnOrderIsShipped, after retries where the bank does not answer.
func TestAnOrderIsShipped(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Serve()...)
		begun := env.Now()
		got := abidetest.Start(env, Orders, Order{Number: 8}).Result() // two attempts fail
		if got.Charge != "charge-8" || got.Parcel != "parcel-8" {
			t.Errorf("the receipt is %+v", got)
		}
		if took := env.Now().Sub(begun); took < 11*time.Second || took > 20*time.Second { // 8 s of packing, two waits
			t.Errorf("it took %v", took)
		}
	})
}

// TestAnApprovalWaits for the event, reminds, and gives up.
func TestAnApprovalWaits(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Serve()...)
		soon := abidetest.Start(env, Approvals, Expense{What: "coffee"})
		late := abidetest.Start(env, Approvals, Expense{What: "a ladder"})
		never := abidetest.Start(env, Approvals, Expense{What: "two lamps"})
		env.After(10*time.Second, func() {
			abidetest.Raise(env, Approved, soon.ID(), Decision{Approved: true, By: "an operator"})
		})
		env.After(2*time.Minute, func() {
			abidetest.Raise(env, Approved, late.ID(), Decision{By: "an operator"})
		})
		if got := soon.Result(); !got.Approved {
			t.Errorf("the first decision is %+v", got)
		}
		if got := late.Result(); got.Approved || got.By != "an operator" {
			t.Errorf("the second decision is %+v", got)
		}
		if got := never.Result(); got.By != "nobody" {
			t.Errorf("the third decision is %+v", got)
		}
	})
}

// TestAReportHasChildren.
func TestAReportHasChildren(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Serve()...)
		report := abidetest.Start(env, Reports, Report{Pages: 3})
		check.Equal(t, "the report", report.Result(), "3 pages, 792 words")
		check.Equal(t, "a page has words", abidetest.Find(env, Pages, report.ID()+"/page-2").Result(), 264)
	})
}

// TestAnImportFails for good, after a mistake that is worth another try.
func TestAnImportFails(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Serve()...)
		started, err := Imports.Start(t.Context(), env.Client(), "a.csv")
		check.OK(t, err)
		_, err = started.Result(t.Context())
		if err == nil || !strings.Contains(err.Error(), "attempt 2") || !strings.Contains(err.Error(), "will not be") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestATrialSleeps for three days.
func TestATrialSleeps(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Serve()...)
		begun := env.Now()
		if got := abidetest.Start(env, Trials, "a customer").Result(); !strings.Contains(got, "the trial is over") {
			t.Errorf("it ended with %q", got)
		}
		if took := env.Now().Sub(begun); took < 72*time.Hour {
			t.Errorf("it took %v", took)
		}
	})
}

// world is a store with all that the demo lives on.
type world struct {
	engine  *abide.Engine
	timers  *timer.Service
	actions *action.Service
	stop    func()
}

func open(t *testing.T, ctx context.Context) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st := memstore.New(memstore.Options{})
	engine, err := abide.New(st, abide.Config{Register: Serve(), Logger: log, Retention: 15 * time.Minute})
	check.OK(t, err)
	timers, err := timer.New(timer.Config{
		Store: st, Logger: log, Sinks: []outbox.Sink{{Name: SinkName, Bus: Sink{Logger: log}}}, Retention: 15 * time.Minute,
	})
	check.OK(t, err)
	actions, err := action.New(action.Config{Store: st, Logger: log, Targets: Targets(engine), Rate: time.Second, Retention: 15 * time.Minute})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 3)
	go func() { ended <- timers.Run(ctx) }()
	go func() { ended <- actions.Run(ctx) }()
	go func() {
		ended <- Run(ctx, Config{Client: engine, Timers: timers, Actions: actions, Logger: log})
	}()
	return &world{engine, timers, actions, func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		_ = engine.Close()
		_ = st.Close()
	}}
}

// count returns how many instances there are with a status.
func (w *world) count(t *testing.T, f abide.Filter) int {
	t.Helper()
	f.Limit = 10_000
	page, err := w.engine.List(t.Context(), f)
	check.OK(t, err)
	return len(page.Instances)
}

// TestThereIsLifeWithinAMinute: on each part of the page there is something to see; and
// after hours there is not more of it than after a while.
func TestThereIsLifeWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, t.Context())
		defer w.stop()
		<-time.After(time.Minute) // virtual
		synctest.Wait()
		for _, status := range []abide.Status{abide.Running, abide.Completed, abide.Failed, abide.Stalled} {
			if w.count(t, abide.Filter{Statuses: []abide.Status{status}}) == 0 {
				t.Errorf("no instance is %s", status)
			}
		}
		for _, o := range []string{"demo-order", "demo-approval", "demo-report", "demo-page", "demo-import", "demo-broken", "demo-trial", "demo-delivery"} {
			if w.count(t, abide.Filter{Orchestrations: []string{o}}) == 0 {
				t.Errorf("there is no %s", o)
			}
		}
		for _, tenant := range tenants {
			for _, status := range []timer.Status{timer.Armed, timer.Fired} {
				page, err := w.timers.List(t.Context(), timer.Filter{Tenant: tenant, Statuses: []timer.Status{status}, Limit: 10})
				if err != nil || len(page.Timers) == 0 {
					t.Errorf("no timer of %s is %s, %v", tenant, status, err)
				}
			}
		}
		done, err := w.actions.List(t.Context(), action.Filter{Statuses: []action.Status{action.Completed}, Limit: 10})
		if err != nil || len(done.Actions) < 5 {
			t.Errorf("%d actions have completed, %v", len(done.Actions), err)
		}
		schedules, err := w.actions.ListSchedules(t.Context(), action.ScheduleFilter{Limit: 10})
		if err != nil || len(schedules.Schedules) != len(plans()) {
			t.Errorf("there are %d schedules, %v", len(schedules.Schedules), err)
		}

		<-time.After(20 * time.Minute) // virtual
		synctest.Wait()
		after := w.count(t, abide.Filter{})
		<-time.After(20 * time.Minute) // virtual
		synctest.Wait()
		if later := w.count(t, abide.Filter{}); later > after+after/10 || later > 2000 {
			t.Errorf("there were %d instances after 20 minutes, and %d after 40", after, later)
		}
	})
}

// TestLimitsMove: deliveries wait for their couriers, and go on.
func TestLimitsMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, t.Context())
		defer w.stop()
		most, least := 0, 0
		for range 300 {
			<-time.After(time.Second) // virtual
			synctest.Wait()
			limits, err := w.engine.Limits(t.Context(), "")
			check.OK(t, err)
			for _, l := range limits {
				if l.Name == "demo-courier" {
					most, least = max(most, l.Waiting), l.Waiting
					for _, k := range l.Keys {
						check.Equal(t, "one parcel of a courier is on its way", k.InUse <= 1, true)
					}
				}
			}
		}
		if most == 0 || least > 20 {
			t.Errorf("%d deliveries waited at most, and %d in the end", most, least)
		}
	})
}

// TestWhatIsBrokenGoesOn when somebody resumes it.
func TestWhatIsBrokenGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, t.Context())
		defer w.stop()
		in, err := Broken.Start(t.Context(), w.engine, abide.None{}, abide.ID("broken-of-a-test"))
		check.OK(t, err)
		if _, err := in.Result(t.Context()); !errors.Is(err, abide.ErrStalled) || !strings.Contains(err.Error(), "on purpose") {
			t.Fatalf("it ended with %v", err)
		}
		check.OK(t, in.Resume(t.Context()))
		if got, err := in.Result(t.Context()); err != nil || got != "it went on where it was" {
			t.Errorf("it ended with %q, %v", got, err)
		}
	})
}

// TestAWebhookIsAnOrder.
func TestAWebhookIsAnOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, t.Context())
		defer w.stop()
		a, _, err := w.actions.Receive(t.Context(), action.Received{Tenant: "default", Slug: HookSlug, Target: TargetOrder, Body: []byte("{}")})
		check.OK(t, err)
		<-time.After(3 * time.Second) // virtual
		synctest.Wait()
		if _, err := w.engine.Get(t.Context(), abide.Ref{ID: "webhook-" + a.ID}); err != nil {
			t.Error(err)
		}
	})
}

// TestTheDemoKeepsToItself: its tenants are told from others.
func TestTheDemoKeepsToItself(t *testing.T) {
	t.Parallel()
	if !IsTenant("demo-north") || IsTenant("default") || IsTenant("") {
		t.Error("tenants of others are taken for those of the demo")
	}
}
