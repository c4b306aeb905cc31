package action_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// How the processes of a world are configured.
const (
	faultRate  = 2 * time.Second
	faultLease = 6 * time.Second
	tries      = 3 // of the target again
)

// errRun is why runs fail that are to fail.
var errRun = errors.New("boom")

// faultWorld is a store and processes that use it, in a bubble of virtual time or on disk.
// It notes what happens outside of them: which runs there were.
type faultWorld struct {
	*rig.Rig
	rig.Ledger[string, askedAction]
	watched  *watched
	troubled bool // processes have died, or were frozen

	mu   sync.Mutex
	runs []*worldRun

	// behave says what a run does; nil means nothing.
	behave action.Func
}

// worldRun is a run of an action.
type worldRun struct {
	process      *process
	id           string
	attempt      int
	began, ended time.Time // ended is zero while it runs
	err          error     // what it returned
	frozen       bool      // its process was frozen while it ran
	interrupted  bool      // it was cancelled while it ran
}

// active reports whether the run is under way, as far as anybody can tell.
func (r *worldRun) active() bool {
	return r.ended.IsZero() && !r.process.dead && !r.frozen && !r.interrupted
}

func newFaultWorld(t *testing.T) *faultWorld { return newFaultWorldOn(t, teststore.New(t)) }

func newFaultWorldOn(t *testing.T, s store.Store) *faultWorld {
	watched := &watched{Store: s, started: map[string]int{}}
	return &faultWorld{Rig: rig.On(t, watched), watched: watched}
}

// process is a service that runs as if it were the only one in its process.
type process struct {
	*action.Service
	w       *faultWorld
	name    string
	running *rig.Process // nil if it does not run

	dead, frozen bool // guarded by the world's lock
}

// process starts one on the world's store, or on a wrapper of it.
func (w *faultWorld) process(name string, s store.Store) *process {
	w.T.Helper()
	p := w.service(name, s)
	p.running = rig.Run(w.T, p)
	return p
}

// service makes a service that does not tick.
func (w *faultWorld) service(name string, s store.Store) *process {
	w.T.Helper()
	p := &process{w: w, name: name}
	f := action.Func(p.act)
	service, err := action.New(action.Config{
		Store: s, Rate: faultRate, LeaseDuration: faultLease, Slots: 4, Retention: -1, DrainTimeout: time.Second, Logger: rig.Quiet, Unlisted: true,
		Targets: map[string]action.Definition{"do": {Target: f}, "again": {Target: f, Attempts: tries, Backoff: time.Second}},
	})
	check.OK(w.T, err)
	p.Service = service
	return p
}

// die notes that the process is gone, with all that it was about to do.
func (p *process) die() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.dead = true
}

// freeze notes that nothing happens in the process until it thaws.
func (p *process) freeze(frozen bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.frozen = frozen
	for _, r := range p.w.runs {
		if r.process == p && r.ended.IsZero() {
			r.frozen = true
		}
	}
}

// act is what targets do: they tell the world.
func (p *process) act(ctx context.Context, r action.Run) (action.Outcome, error) {
	w := p.w
	run := &worldRun{process: p, id: r.Action.ID, attempt: r.Action.Attempt, began: time.Now()}
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		<-ctx.Done() // it is not there any more
		return action.Outcome{}, ctx.Err()
	}
	for _, other := range w.runs {
		if other.id == run.id && other.active() {
			w.Problem("action %s runs in %s and in %s at the same time", run.id, other.process.name, p.name)
		}
	}
	if due := r.Action.Due(); run.began.Before(due) {
		w.Problem("action %s runs at %v, before it is due at %v", run.id, run.began, due)
	}
	if want := bodyOf(&r.Action); string(r.Body) != want {
		w.Problem("action %s runs with the body %q, and %q was received", run.id, r.Body, want)
	}
	run.frozen = p.frozen // it was about to run, and did not come to it
	w.runs = append(w.runs, run)
	behave := w.behave
	w.mu.Unlock()
	var err error
	if behave != nil {
		_, err = behave(ctx, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	run.ended, run.err = time.Now(), err
	return action.Outcome{}, err
}

// bodyOf returns the body with which an action was received.
func bodyOf(a *action.Action) string {
	if a.Trigger.Kind != action.Webhook {
		return ""
	}
	return "body of " + a.Trigger.Header["Delivery"]
}

// runsOf returns the runs of an action.
func (w *faultWorld) runsOf(id string) []*worldRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	var runs []*worldRun
	for _, r := range w.runs {
		if r.id == id {
			runs = append(runs, r)
		}
	}
	return runs
}

// watched is a store that counts how often actions were marked running, by any process
// and with any outcome.
type watched struct {
	store.Store
	mu      sync.Mutex
	started map[string]int
}

func (s *watched) Commit(ctx context.Context, tx *store.Tx) error {
	err := s.Store.Commit(ctx, tx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tx.PutRecords {
		if r := &tx.PutRecords[i].Record; r.Key.Kind == "action" && r.Status == string(action.Running) {
			s.started[r.Key.ID]++
		}
	}
	return nil
}

// startedOf returns how often an action was marked running.
func (s *watched) startedOf(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[id]
}

// all returns all actions that the store has.
func (w *faultWorld) all() []action.Action {
	w.T.Helper()
	reader := w.service("reader", w.Store)
	return check.All(w.T, reader.All(context.Background(), action.Filter{Limit: action.MaxPage}))
}

// check checks all that must hold in the end.
func (w *faultWorld) check() {
	w.T.Helper()
	w.findProblems()
	w.Report(w.T)
}

// findProblems returns what does not hold in the end.
func (w *faultWorld) findProblems() []string {
	stats, err := w.Store.Stats(context.Background())
	check.OK(w.T, err)
	for _, r := range stats.Routes {
		if r.Queue == "actions" {
			w.Problem("%d messages of actions are left", r.Pending)
		}
	}
	there := map[string]bool{}
	made := map[time.Time]string{}
	for _, a := range w.all() {
		there[a.ID] = true
		w.checkAction(&a)
		if a.Schedule == "" {
			continue
		}
		if other, twice := made[a.RunAt]; twice {
			w.Problem("the run of %v was made twice: %s and %s", a.RunAt, other, a.ID)
		}
		made[a.RunAt] = a.ID
	}
	for _, id := range w.Keys() {
		if w.Find(id).added && !there[id] {
			w.Problem("action %s is lost", id)
		}
	}
	return w.Problems()
}

// checkAction checks what must hold of an action in the end.
func (w *faultWorld) checkAction(a *action.Action) {
	asked := w.Find(a.ID)
	if asked == nil {
		asked = &askedAction{} // a schedule has made it
	}
	runs, started := w.runsOf(a.ID), w.watched.startedOf(a.ID)
	failed, succeeded := 0, 0
	for _, r := range runs {
		if !r.ended.IsZero() && r.err == nil {
			succeeded++
		} else if errors.Is(r.err, errRun) {
			failed++
		}
	}
	story := fmt.Sprintf("action %s is %s %q after %d runs, %d of which failed and %d succeeded; it was marked running %d times, cancelled %d times and retried %d times",
		a.ID, a.Status, a.Reason, len(runs), failed, succeeded, started, asked.cancels, asked.retries)
	attempts := 1
	if a.Target == "again" {
		attempts = tries
	}
	if most := attempts * (1 + asked.retries); !a.Idempotent && len(runs) > most {
		w.Problem("%s: more than %d", story, most)
	}
	if len(runs) > started {
		w.Problem("%s: it runs without that", story)
	}
	switch {
	case a.Status == action.Completed && succeeded > 0:
	case a.Status == action.Failed && a.Reason == "recovered from restart" && started > 0 && w.troubled:
	case a.Status == action.Failed && strings.HasPrefix(a.Reason, "the service is stopping") && !a.Idempotent && w.troubled:
	case a.Status == action.Failed && a.Reason == errRun.Error() && failed > 0:
	case a.Status == action.Cancelled && asked.cancels > 0:
	case a.Status == action.Skipped:
	default:
		w.Problem("%s", story)
	}
	if a.Trigger.Kind != action.Webhook {
		return
	}
	body, err := w.service("reader", w.Store).Body(context.Background(), a.Tenant, a.ID)
	if gone := errors.Is(err, action.ErrNotFound); gone != (a.Status == action.Completed) || (!gone && string(body) != bodyOf(a)) {
		w.Problem("%s: its body is %q, %v", story, body, err)
	}
}
