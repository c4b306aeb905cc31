package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// openStatuses are those of instances that have not ended.
var openStatuses = []abide.Status{abide.Pending, abide.Running, abide.Suspended, abide.Stalled}

// settle waits until every order has ended, and every timer was published.
func (f *fleet) settle() {
	f.t.Helper()
	open := 0
	if !until(func() bool {
		open = 0
		for _, info := range f.instances(openStatuses...) {
			if info.Status == abide.Stalled {
				f.t.Fatalf("%v has stalled: %s", info.Ref, info.Reason)
			}
			open++
		}
		return open == 0
	}) {
		f.t.Fatalf("%d instances do not come to an end", open)
	}
	if !until(func() bool {
		page, err := f.timers.List(f.t.Context(), timer.Filter{Statuses: []timer.Status{timer.Armed}, Limit: 1})
		return err == nil && len(page.Timers) == 0 && f.pending() == 0
	}) {
		f.t.Errorf("%d messages are left", f.pending())
	}
}

// instances returns those that have one of the statuses, or all.
func (f *fleet) instances(statuses ...abide.Status) []abide.Info {
	f.t.Helper()
	var all []abide.Info
	for cursor := ""; ; {
		var page abide.Page
		f.insist("list instances", func(ctx context.Context) error {
			var err error
			page, err = f.client.List(ctx, abide.Filter{Statuses: statuses, Limit: 1_000, Cursor: cursor})
			return err
		})
		all = append(all, page.Instances...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// pending returns how many messages wait.
func (f *fleet) pending() int {
	n := 0
	f.insist("count messages", func(ctx context.Context) error {
		stats, err := f.store.Stats(ctx)
		n = 0
		for _, r := range stats.Routes {
			n += r.Pending
		}
		return err
	})
	return n
}

// check waits until all has come to its end, stops the processes, and checks everything.
func (f *fleet) check() {
	f.t.Helper()
	f.settle()
	f.stopAll()
	f.checkLedger()
	f.checkOrders()
	f.checkHistories()
	f.checkTimers()
	f.t.Logf("the latest thing was %v late; the limit is %v, and the database was away for %v", f.latest, f.longest(), f.outage)
	f.checkStore()
}

// alone is how long something may be left to itself after one fault: as long as the
// database was away, and the lease of a process that is lost.
func (f *fleet) alone() time.Duration { return f.outage + lease + slack }

// longest is how long something may be left to itself altogether, by as many faults as can
// meet one thing in a row.
func (f *fleet) longest() time.Duration { return 2*(f.outage+lease) + slack }

// checkLedger checks that no attempt began twice under one number, and that none was long
// in coming.
func (f *fleet) checkLedger() {
	f.t.Helper()
	problems, err := f.ledger.problems(f.t.Context(), f.alone())
	check.OK(f.t, err)
	for _, p := range problems {
		f.t.Error(p)
	}
	steps, instances, err := f.ledger.weighed(f.t.Context())
	check.OK(f.t, err)
	check.Equal(f.t, "orders were weighed", instances, len(f.orders))
	gap, err := f.ledger.longestGap(f.t.Context())
	check.OK(f.t, err)
	f.t.Logf("%d orders, %d of which were weighed once more; the longest wait for another attempt was %v", len(f.orders), steps-instances, gap)
}

// checkOrders checks that each order has had each of its effects once, and returned what
// came of them.
func (f *fleet) checkOrders() {
	f.t.Helper()
	all, err := f.ledger.effects(f.t.Context())
	check.OK(f.t, err)
	receipts := map[string]map[string]string{} // by instance and step
	for _, e := range all {
		if receipts[e.instance] == nil {
			receipts[e.instance] = map[string]string{}
		}
		if other := receipts[e.instance][e.step]; other != "" {
			f.t.Errorf("%s has had the effect %s twice: %s and %s", e.instance, e.step, other, e.receipt)
		}
		receipts[e.instance][e.step] = e.receipt
	}
	want := 0
	for number, version := range f.orders {
		steps := stepsOf[version]
		want += len(steps)
		var of []string
		for _, step := range steps {
			instance := orderID(number)
			if step == "pack" {
				instance = parcelID(number)
			}
			of = append(of, receipts[instance][step])
		}
		f.checkOrder(number, version, resultOf(version, 3*number, number%7, of))
	}
	check.Equal(f.t, "the world has seen effects", len(all), want)
	if got, want := len(f.instances()), 2*len(f.orders); got != want {
		f.t.Errorf("there are %d instances, want %d: the orders, and a child of each", got, want)
	}
}

func (f *fleet) checkOrder(number int, version, want string) {
	f.t.Helper()
	info, err := f.client.Get(f.t.Context(), abide.Ref{ID: orderID(number)})
	check.OK(f.t, err)
	if got, err := abide.ResultOf[string](info); err != nil || got != want {
		f.t.Errorf("%s: %q, %v, want %q", orderID(number), got, err, want)
	}
	if info.Version != version || info.Execution != 2 {
		f.t.Errorf("%s ended in execution %d of version %s, want the second of version %s", orderID(number), info.Execution, info.Version, version)
	}
}

// checkHistories checks the history of each execution, and replays it.
func (f *fleet) checkHistories() {
	f.t.Helper()
	var all []abide.History
	for _, info := range f.instances() {
		for execution := 1; execution <= info.Execution; execution++ {
			h, err := f.client.History(f.t.Context(), info.Ref, execution)
			if err == nil {
				var late time.Duration
				late, err = checkHistory(h, f.longest())
				f.latest = max(f.latest, late)
			}
			if err != nil {
				f.t.Errorf("execution %d of %v: %v", execution, info.Ref, err)
			}
			all = append(all, h)
		}
	}
	f.t.Run("replay", func(t *testing.T) { abidetest.Replay(t, abidetest.Histories(all...), everything...) })
}

// answers says which kinds of events answer which.
var answers = map[history.Kind]history.Kind{
	history.ActivityCompleted: history.ActivityScheduled,
	history.TimerFired:        history.TimerCreated,
	history.ChildCompleted:    history.ChildStarted,
}

// checkHistory checks that a history of an execution that has ended is one: events without
// gaps, time that goes forward, each thing answered once and after it was asked for, no
// timer early, and nothing left alone for long, by the store's clock. It returns how late
// the latest thing was.
func checkHistory(h abide.History, longest time.Duration) (latest time.Duration, err error) {
	type question struct {
		kind history.Kind
		due  time.Time
	}
	asked := map[int32]question{}
	now := time.Time{}
	for i := range h.Events {
		e := &h.Events[i]
		q := asked[e.Ref]
		switch {
		case int(e.ID) != i+1:
			return latest, fmt.Errorf("event %d has ID %d", i+1, e.ID)
		case e.Kind == history.TurnStarted:
			if e.At.Before(now) {
				return latest, fmt.Errorf("event %s is earlier than the turn before, at %v", e.String(), now)
			}
			now = e.At
		case e.Kind == history.TimerCreated:
			asked[e.ID] = question{e.Kind, e.At}
		case e.Kind == history.ActivityScheduled, e.Kind == history.ChildStarted:
			asked[e.ID] = question{e.Kind, now}
		case answers[e.Kind] == 0:
		case q.kind != answers[e.Kind]:
			return latest, fmt.Errorf("event %s answers what is not open", e.String())
		case now.Before(q.due):
			return latest, fmt.Errorf("event %s, in a turn at %v, is early: it was due at %v", e.String(), now, q.due)
		case e.Kind != history.ChildCompleted && now.Sub(q.due) > longest:
			return latest, fmt.Errorf("event %s, in a turn at %v, comes %v late", e.String(), now, now.Sub(q.due))
		default:
			if e.Kind != history.ChildCompleted {
				latest = max(latest, now.Sub(q.due))
			}
			delete(asked, e.Ref)
		}
	}
	if len(asked) > 0 {
		return latest, fmt.Errorf("%d things were not answered: %v", len(asked), asked)
	}
	last := h.Events[len(h.Events)-1].Kind
	if last != history.ExecutionCompleted && last != history.ExecutionContinued {
		return latest, fmt.Errorf("it ends with %s", last)
	}
	return latest, nil
}

// publication is an envelope in a file, and when it got there.
type publication struct {
	at       time.Time
	envelope bus.Envelope
	due      timer.DueTimeReached
}

// checkTimers checks that each timer was published, as one envelope, however often, not
// early and not late; and none that was cancelled in time.
func (f *fleet) checkTimers() {
	f.t.Helper()
	ids := map[string]string{}
	published := 0
	for n := range f.started {
		for _, p := range f.published(fmt.Sprintf("process-%d", n+1)) {
			key := p.due.ServiceCallID
			due, known := f.due[key]
			switch before := ids[key]; {
			case !known:
				f.t.Errorf("timer %s of %s was never scheduled", key, p.envelope.TenantID)
			case f.cancelled[key]:
				f.t.Errorf("timer %s was cancelled, and published", key)
			case before != "" && before != p.envelope.ID:
				f.t.Errorf("timer %s was published as %s and as %s", key, before, p.envelope.ID)
			case !p.due.DueAt.Equal(due):
				f.t.Errorf("timer %s says that it was due at %v, and was scheduled for %v", key, p.due.DueAt, due)
			case p.due.FiredAt.Before(due), p.at.Before(due):
				f.t.Errorf("timer %s is early: due at %v, fired at %v, published at %v", key, due, p.due.FiredAt, p.at)
			case p.due.FiredAt.Sub(due) > f.longest():
				f.t.Errorf("timer %s is %v late", key, p.due.FiredAt.Sub(due))
			}
			f.latest = max(f.latest, p.due.FiredAt.Sub(due))
			ids[key] = p.envelope.ID
			published++
		}
	}
	for key := range f.due {
		if ids[key] == "" && !f.cancelled[key] {
			f.t.Errorf("timer %s was not published", key)
		}
	}
	f.t.Logf("%d timers, %d of which were cancelled, published %d times", len(f.due), len(f.cancelled), published)
}

// published reads what a process has published.
func (f *fleet) published(process string) []publication {
	f.t.Helper()
	file, err := os.Open(f.sink(process))
	check.OK(f.t, err)
	defer file.Close()
	var all []publication
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var p publication
		at, text, _ := strings.Cut(lines.Text(), " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			p.envelope, err = bus.Decode([]byte(text))
		}
		if err == nil {
			err = json.Unmarshal(p.envelope.Payload, &p.due)
		}
		if err != nil {
			f.t.Fatalf("%s published %q: %v", process, lines.Text(), err)
		}
		p.at = time.UnixMilli(ms)
		all = append(all, p)
	}
	return all
}

// checkStore checks that nothing is left behind.
func (f *fleet) checkStore() {
	f.t.Helper()
	stats, err := f.store.Stats(f.t.Context())
	check.OK(f.t, err)
	for _, r := range stats.Routes {
		f.t.Errorf("%d messages for %q are left in queue %s", r.Pending, r.Route, r.Queue)
	}
	if stats.Leases > 0 {
		f.t.Errorf("%d leases are left", stats.Leases)
	}
	page, err := f.store.List(f.t.Context(), store.Query{Kind: store.KindQuarantine})
	check.OK(f.t, err)
	for _, r := range page.Records {
		f.t.Errorf("in quarantine, %s: %s of %s", r.Status, r.Tags[store.TagMessage], r.Tags[store.TagKey])
	}
	if p, ok := f.store.(store.Portable); !ok {
		f.t.Error("the store cannot be verified")
	} else if err := p.Verify(f.t.Context(), func(problem string) { f.t.Error(problem) }); err != nil {
		f.t.Error(err)
	}
}
