package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// world is a store in memory, in virtual time, and those who use it. Make it inside a
// synctest bubble.
type world struct {
	t      *testing.T
	store  store.Store
	client *abide.Client // on the store itself: what it does never fails
	serve  []abide.Definition
	begun  time.Time
}

func newWorld(t *testing.T, serve ...abide.Definition) *world {
	s := teststore.New(t)
	w := &world{t: t, store: s, client: unchecked(abide.NewClient(s, nil)), serve: serve, begun: time.Now()}
	t.Cleanup(func() {
		pass(2 * unit) // for activities that do not look whether anybody waits
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// engine starts an engine on a store that is the world's, or a wrapper of it.
func (w *world) engine(s store.Store, change ...func(*abide.Config)) *abide.Engine {
	w.t.Helper()
	cfg := abide.Config{Register: w.serve, Unlisted: true, Retention: -1, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	e, err := abide.New(s, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { stop(e) })
	return e
}

// stop closes an engine without waiting for what is under way.
func stop(e *abide.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.Shutdown(ctx) // there may be work under way, which is fine
}

// drain closes an engine when nothing is under way any more.
func (w *world) drain(e *abide.Engine) {
	w.t.Helper()
	if err := e.Shutdown(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// passUntil lets time pass until it is d after the world began.
func (w *world) passUntil(d time.Duration) {
	if left := d - time.Since(w.begun); left > 0 {
		pass(left)
	}
}

// do reports an error of a call that must not fail.
func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// soon returns the state of an instance as soon as a condition holds.
func (w *world) soon(id, what string, is func(abide.Info) bool) abide.Info {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 1000*time.Hour)
	defer cancel()
	info, err := w.client.WaitChange(ctx, abide.Ref{ID: id}, 0)
	for err == nil && !is(info) {
		var next abide.Info
		if next, err = w.client.WaitChange(ctx, abide.Ref{ID: id}, info.Revision); err == nil {
			info = next
		}
	}
	if err != nil {
		w.t.Fatalf("instance %q is not %s: %v; it is %s %s\n%s", id, what, err, info.Status, info.Reason, w.dump(id))
	}
	return info
}

func (w *world) ended(id string) abide.Info {
	w.t.Helper()
	return w.soon(id, "ended", func(i abide.Info) bool { return i.Status.Ended() })
}

func (w *world) status(id string, status abide.Status) abide.Info {
	w.t.Helper()
	return w.soon(id, string(status), func(i abide.Info) bool { return i.Status == status })
}

// said waits until an instance says something about itself.
func (w *world) said(id, text string) {
	w.t.Helper()
	w.soon(id, "at "+text, func(i abide.Info) bool { return i.StatusText == text })
}

// all returns all instances.
func (w *world) all() []abide.Info {
	w.t.Helper()
	page, err := w.client.List(w.t.Context(), abide.Filter{Limit: 10_000})
	w.do(err)
	if page.Next != "" {
		w.t.Fatal("there are more instances than fit on a page")
	}
	return page.Instances
}

// dump returns the history of an instance and what waits for it, for people.
func (w *world) dump(id string) string {
	var b strings.Builder
	h, err := w.client.History(w.t.Context(), abide.Ref{ID: id}, 0)
	fmt.Fprintf(&b, "history of %s, execution %d: %v\n", id, h.Execution, err)
	for i := range h.Events {
		fmt.Fprintf(&b, "  %s %.40s\n", h.Events[i].String(), h.Events[i].Data)
	}
	pending, err := w.store.Pending(w.t.Context(), store.Key{Queue: "turns", Name: id}, 0)
	fmt.Fprintf(&b, "pending at %v: %v\n", time.Now().UTC(), err)
	for _, m := range pending {
		fmt.Fprintf(&b, "  %s for %s at %v, attempt %d\n", m.ID, m.Route, m.VisibleAt, m.Attempt)
	}
	return b.String()
}

// result returns what has become of an instance, in words.
func result(info abide.Info) string {
	if info.Status == abide.Completed {
		return string(info.Result)
	}
	return fmt.Sprintf("%s: %v", info.Status, info.Err)
}

// check checks the histories of all instances: see checkHistory.
func (w *world) check() {
	w.t.Helper()
	for _, info := range w.all() {
		executions := []int{info.Execution}
		if info.Execution > 1 {
			executions = append(executions, info.Execution-1)
		}
		for _, execution := range executions {
			h, err := w.client.History(w.t.Context(), info.Ref, execution)
			w.do(err)
			if err := checkHistory(h, execution < info.Execution || info.Status.Ended()); err != nil {
				w.t.Errorf("execution %d of %v: %v\n%s", execution, info.Ref, err, w.dump(info.Ref.ID))
			}
			if err := replayHistory(h, w.serve); err != nil {
				w.t.Errorf("execution %d of %v does not replay: %v\n%s", execution, info.Ref, err, w.dump(info.Ref.ID))
			}
		}
	}
}

// checkQuiet checks that nothing is left of what has ended: no lease, and no message
// but those that are listed.
func (w *world) checkQuiet(allowed ...string) {
	w.t.Helper()
	stats, err := w.store.Stats(w.t.Context())
	w.do(err)
	if stats.Leases > 0 {
		w.t.Errorf("%d leases are left", stats.Leases)
	}
	for _, r := range stats.Routes {
		if r.Queue == "activities" {
			w.t.Errorf("%d tasks for %s are left", r.Pending, r.Route)
		}
	}
	for _, info := range w.all() {
		if !info.Status.Ended() {
			continue
		}
		pending, err := w.store.Pending(w.t.Context(), store.Key{Queue: "turns", Tenant: info.Ref.Tenant, Name: info.Ref.ID}, 0)
		w.do(err)
		for _, m := range pending {
			if !slices.Contains(allowed, m.ID) {
				w.t.Errorf("message %s of %v is left, for %s, at %v, attempt %d; the instance is %s", m.ID, info.Ref, m.Route, m.VisibleAt, m.Attempt, info.Status)
			}
		}
	}
	w.checkNoQuarantine()
}

func (w *world) checkNoQuarantine() {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), store.Query{Kind: store.KindQuarantine})
	w.do(err)
	for _, r := range page.Records {
		w.t.Errorf("in quarantine, %s: %s of %s", r.Status, r.Tags[store.TagMessage], r.Tags[store.TagKey])
	}
}

// answersOf says which kinds of events answer which.
var answersOf = map[history.Kind]history.Kind{
	history.ActivityCompleted: history.ActivityScheduled, history.ActivityFailed: history.ActivityScheduled,
	history.TimerFired:     history.TimerCreated,
	history.ChildCompleted: history.ChildStarted, history.ChildFailed: history.ChildStarted,
}

// quietTurn reports whether the events behind a TurnStarted are a turn that the code does
// not learn of. Such a turn may have a later time than the one behind it: a turn during
// which its instance was suspended is appended behind the suspension, with the time that
// its code was told.
func quietTurn(events []history.Event) bool {
	n := slices.IndexFunc(events, func(e history.Event) bool { return !e.Kind.Quiet() })
	return n > 0 && events[n].Kind == history.TurnStarted || n < 0 && len(events) > 0
}

// checkHistory checks that a history is one: IDs without gaps, whole turns, no answer
// twice or without a question, no timer early, time that goes forward, one end.
func checkHistory(h abide.History, ended bool) error {
	asked := map[int32]history.Kind{} // kinds by ID, of what is not answered
	due := map[int32]time.Time{}      // of timers
	answered := map[int32]string{}    // by whom
	firedAt := map[int32]int{}        // at which place
	turn, did := -1, false            // where the turn began, and whether its code has done something
	now, end := time.Time{}, ""       // of the turn, and how it ended
	for i := range h.Events {
		e := &h.Events[i]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("event %s: %s", e.String(), fmt.Sprintf(format, args...))
		}
		switch {
		case int(e.ID) != i+1:
			return fail("should have ID %d", i+1)
		case end != "":
			return fail("comes after %s", end)
		case e.Kind == history.TurnStarted:
			turn, did = i, false
			if quietTurn(h.Events[i+1:]) { // the code is not told its time
				continue
			}
			if e.At.Before(now) {
				return fail("is earlier than the turn before, %v", now)
			}
			now = e.At
			continue
		case turn < 0:
			return fail("comes before a turn has started")
		case e.Kind.Incoming() && did:
			return fail("reaches the instance in the midst of a turn")
		case !e.Kind.Incoming():
			did = true
		}
		switch kind := answersOf[e.Kind]; {
		case kind != 0:
			if asked[e.Ref] != kind {
				return fail("answers what is not open (answered by %q)", answered[e.Ref])
			}
			if at := due[e.Ref]; kind == history.TimerCreated && now.Before(at) {
				return fail("is early: it was due at %v, in a turn at %v", at, now)
			}
			delete(asked, e.Ref)
			answered[e.Ref], firedAt[e.Ref] = e.String(), i
		case e.Kind == history.ChildCancelled: // it answers all the same, once
		case e.Kind == history.ActivityCancelled || e.Kind == history.TimerCancelled:
			delete(asked, e.Ref)
			answered[e.Ref] = e.String()
		case slices.Contains(slices.Collect(maps.Values(answersOf)), e.Kind):
			asked[e.ID], due[e.ID] = e.Kind, e.At
		case e.Kind == history.TimerMoved || e.Kind == history.TimerMoveReceived:
			if e.Kind == history.TimerMoved && answered[e.Ref] != "" {
				// What the code moves may fire in the same turn, after what made it move: that
				// does not count.
				if firedAt[e.Ref] <= turn {
					return fail("moves what was answered by %s", answered[e.Ref])
				}
				asked[e.Ref] = history.TimerCreated
				delete(answered, e.Ref)
			}
			due[e.Ref] = e.At
		}
		if e.Kind.Ends() {
			end = e.String()
		}
	}
	if ended && end == "" {
		return errors.New("it has no end")
	}
	return nil
}

// effects are what activities and steps have done.
type effects struct {
	mu   sync.Mutex
	done map[string]int
}

func (f *effects) do(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = map[string]int{}
	}
	f.done[name]++
	return f.done[name]
}

func (f *effects) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done[name]
}

func (f *effects) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.done))
}

// failNth is a plan: the nth call of a method, or of all if it is empty, fails.
func failNth(method string, n int, how storetest.Fault) func(storetest.Call) storetest.Fault {
	seen := 0
	return func(c storetest.Call) storetest.Fault {
		if method != "" && c.Method != method {
			return storetest.NoFault
		}
		if seen++; seen == n {
			return how
		}
		return storetest.NoFault
	}
}

// replayHistory replays a history against the code that is served, from nothing, and returns the
// difference.
func replayHistory(h abide.History, serve []abide.Definition) error {
	r, err := abide.NewReplayer(nil, slog.New(slog.DiscardHandler), serve...)
	if err != nil {
		return err
	}
	_, err = r.Replay(&h)
	return err
}

// unchecked is a client whose starts and events are not compared with what workers have published: in
// these tests instances are there before the processes that serve them.
func unchecked(c *abide.Client) *abide.Client {
	return abide.ClientOver(uncheckedTransport{c.Transport()}, nil)
}

type uncheckedTransport struct{ abide.Transport }

func (t uncheckedTransport) Start(ctx context.Context, requests []abide.StartRequest) ([]abide.Started, error) {
	for i := range requests {
		requests[i].Unchecked = true
	}
	return t.Transport.Start(ctx, requests)
}

func (t uncheckedTransport) Raise(ctx context.Context, requests []abide.RaiseRequest) ([]abide.Raised, error) {
	for i := range requests {
		requests[i].Unchecked = true
	}
	return t.Transport.Raise(ctx, requests)
}
