package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/timer"
)

// ledger is what the world outside saw: effects of activities, runs of actions, envelopes,
// and what clients were told.
type ledger struct {
	w *world

	book       sync.Mutex
	problems   []string
	calm       bool
	jumped     bool // the store's clock has jumped, so that leases ended before their time
	nonces     int
	effects    []*effectRun
	runs       []*actionRun
	operations []*operation
	arrivals   map[string][]arrival // by sink
	instances  map[string]*told
	timers     map[string][]*timerCall
	actions    map[string]*actionAsked
	signals    map[string]*signals // by sender
}

// effectRun is one attempt at an activity.
type effectRun struct {
	p     *process
	in    effectIn
	of    abide.Ref       // the instance that waits for it: a fork asks for the same again
	ctx   context.Context //nolint:containedctx // tells whether the attempt was told to stop
	over  bool
	done  bool
	began time.Time
}

// actionRun is one run of an action.
type actionRun struct {
	p     *process
	id    string
	ctx   context.Context //nolint:containedctx // tells whether the run was told to stop
	over  bool
	err   error
	began time.Time
}

// arrival is an envelope that a sink accepted.
type arrival struct {
	bus.Envelope
	at    time.Time // by the store's clock
	event timer.DueTimeReached
	call  int // which Schedule it comes from
}

// told is what clients asked of an instance, and what they were told.
type told struct {
	kind    string
	n       int
	started bool
	touched bool  // cancelled, terminated, forked, or started anew: only its end is checked
	raised  []int // in order; acknowledged
	maybe   []int // with an unknown outcome
	busy    bool  // a call about it is under way
	deleted bool  // or perhaps not: its deletion was asked for
	moved   int   // how many items a mover has put
}

// timerCall is a call about a tenant timer, in the order in which they were made.
type timerCall struct {
	verb   string // schedule or cancel
	number int
	due    time.Time
	began  time.Time // by the store's clock
	ended  time.Time
	err    error
	status timer.Status // that was returned
}

// actionAsked is what clients asked of an action.
type actionAsked struct {
	added      bool
	idempotent bool
	webhook    bool
	cancels    int
	retries    int
	due        time.Time
}

func (l *ledger) init(w *world) {
	l.w = w
	l.arrivals = map[string][]arrival{}
	l.instances = map[string]*told{}
	l.timers = map[string][]*timerCall{}
	l.actions = map[string]*actionAsked{}
	l.signals = map[string]*signals{}
}

// problem notes that an invariant does not hold.
func (l *ledger) problem(format string, args ...any) {
	l.book.Lock()
	defer l.book.Unlock()
	l.problemLocked(format, args...)
}

func (l *ledger) problemLocked(format string, args ...any) {
	at := time.Since(l.w.begun).Seconds()
	l.problems = append(l.problems, fmt.Sprintf("%9.3f  ", at)+fmt.Sprintf(format, args...))
}

// quietNow reports whether faults are over.
func (l *ledger) quietNow() bool {
	l.book.Lock()
	defer l.book.Unlock()
	return l.calm
}

// drawNonce returns what the step of a worker returns: another number each time.
func (l *ledger) drawNonce(*process) int {
	l.book.Lock()
	defer l.book.Unlock()
	l.nonces++
	return l.nonces
}

// active reports whether a run is under way in a process that can work and has not been told
// to stop.
func active(ctx context.Context, p *process, over bool) bool {
	return !over && ctx.Err() == nil && !p.gone() && !p.frozen()
}

// beginEffect notes an attempt: no other one of the same activity may be under way, and not
// more than the process has slots for.
func (l *ledger) beginEffect(ctx context.Context, p *process, in effectIn) *effectRun {
	info, _ := abide.ActivityOf(ctx)
	run := &effectRun{p: p, in: in, of: info.Instance, ctx: ctx, began: time.Now()}
	l.book.Lock()
	defer l.book.Unlock()
	slots := 1
	for _, other := range l.effects {
		if other.over {
			continue
		}
		if other.p == p {
			slots++
		}
		if other.in == in && other.of == run.of && other.p != p && active(other.ctx, other.p, other.over) && !p.gone() && !l.jumped {
			l.problemLocked("effect %+v runs in %v and in %v at the same time", in, other.p, p)
		}
	}
	if slots > maxActivities {
		l.problemLocked("%v runs %d activities, at most %d are allowed", p, slots, maxActivities)
	}
	if !p.gone() {
		l.effects = append(l.effects, run)
	}
	return run
}

func (l *ledger) endEffect(r *effectRun) {
	l.book.Lock()
	defer l.book.Unlock()
	r.over = true
}

func (l *ledger) done(r *effectRun) {
	l.book.Lock()
	defer l.book.Unlock()
	r.done = true
}

// actionTries is how often an action of the target "again" is run.
const actionTries = 3

// act is what the targets of actions do.
func (l *ledger) act(ctx context.Context, p *process, r action.Run) (action.Outcome, error) {
	a := &r.Action
	if p.gone() {
		<-ctx.Done()
		return action.Outcome{}, ctx.Err()
	}
	run := &actionRun{p: p, id: a.ID, ctx: ctx, began: l.w.clock.Now()}
	l.book.Lock()
	slots := 1
	for _, other := range l.runs {
		if other.over {
			continue
		}
		if other.p == p {
			slots++
		}
		cancelled := l.actions[a.ID] != nil && l.actions[a.ID].cancels > 0 // and tried again before its run knew
		if other.id == a.ID && active(other.ctx, other.p, other.over) && !l.jumped && !cancelled {
			l.problemLocked("action %s runs in %v and in %v at the same time", a.ID, other.p, p)
		}
	}
	if slots > maxActions {
		l.problemLocked("%v runs %d actions, at most %d are allowed", p, slots, maxActions)
	}
	if run.began.Before(a.Due()) {
		l.problemLocked("action %s runs %v early", a.ID, a.Due().Sub(run.began))
	}
	if a.Trigger.Kind == action.Webhook && string(r.Body) != "body of "+a.Trigger.Header["Delivery"] {
		l.problemLocked("action %s runs with the body %q", a.ID, r.Body)
	}
	l.runs = append(l.runs, run)
	calm := l.calm
	l.book.Unlock()
	err := after(ctx, time.Duration(l.w.chance(4, "act %s %d", a.ID, a.Attempt))*time.Second)
	if err == nil && !calm && l.w.chance(4, "act fails %s %d", a.ID, a.Attempt) == 0 {
		err = errAct
	}
	if p.gone() {
		<-ctx.Done()
		err = ctx.Err()
	}
	l.book.Lock()
	defer l.book.Unlock()
	run.over, run.err = true, err
	return action.Outcome{}, err
}

var errAct = errors.New("the action fails")

// sinksOf returns the sinks of a tenant: one tenant has one, the other both.
func sinksOf(tenant string) []string {
	if tenant == "solo" {
		return []string{"first"}
	}
	return []string{"first", "second"}
}

// sinkOf returns a sink as a process knows it. It fails now and then, before or after it has
// accepted an envelope.
func (l *ledger) sinkOf(p *process, name string) outbox.Sink {
	return outbox.Sink{
		Name: name, Bus: publish(func(ctx context.Context, envelopes []bus.Envelope) error {
			for i := range envelopes {
				if err := l.accept(ctx, p, name, envelopes[i]); err != nil {
					return err
				}
			}
			return nil
		}),
		Retry: outbox.Retry{Attempts: 1000, First: 50 * time.Millisecond, Cap: time.Second},
	}
}

// publish is a bus that is a function.
type publish func(ctx context.Context, envelopes []bus.Envelope) error

// Publish publishes.
func (f publish) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	return f(ctx, envelopes)
}

var errSink = errors.New("the sink does not say whether it has accepted it")

func (l *ledger) accept(ctx context.Context, p *process, sink string, e bus.Envelope) error {
	l.book.Lock()
	n, calm := len(l.arrivals[sink]), l.calm
	l.book.Unlock()
	fate := l.w.chance(8, "accept %s %s %s %d", sink, e.TenantID, e.Payload, n)
	if !calm && fate == 0 {
		return errSink
	}
	if !calm && fate == 1 {
		if err := after(ctx, time.Second); err != nil {
			return err
		}
	}
	if p.gone() {
		<-ctx.Done()
		return ctx.Err()
	}
	a := arrival{Envelope: e, at: l.w.clock.Now()}
	a.Payload = slices.Clone(e.Payload)
	if err := json.Unmarshal(e.Payload, &a.event); err != nil {
		return err
	}
	if err := json.Unmarshal(a.event.Payload, &a.call); err != nil {
		return err
	}
	l.book.Lock()
	l.arrivals[sink] = append(l.arrivals[sink], a)
	l.book.Unlock()
	if !calm && fate == 2 {
		return errSink
	}
	return nil
}
