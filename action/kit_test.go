package action_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// rate is that of a rig's ticks.
const rate = 10 * time.Second

func TestMain(m *testing.M) { teststore.Main(m) }

// fixture is a service with one target.
type fixture struct {
	*rig.Rig
	*action.Service
	*journal
}

func newFixture(t *testing.T, configure ...func(*action.Config)) *fixture {
	t.Helper()
	return newFixtureOn(t, teststore.New(t), newJournal(t), configure...)
}

func newFixtureOn(t *testing.T, s store.Store, j *journal, configure ...func(*action.Config)) *fixture {
	t.Helper()
	r := &fixture{Rig: rig.On(t, s), journal: j}
	cfg := action.Config{
		Store: s, Rate: rate, Retention: -1, Logger: rig.Quiet,
		Targets: map[string]action.Definition{"do": {Target: action.Func(j.act)}},
	}
	for _, f := range configure {
		f(&cfg)
	}
	var err error
	r.Service, err = action.New(cfg)
	check.OK(t, err)
	return r
}

// target changes how a configuration uses the target.
func target(f func(d *action.Definition)) func(*action.Config) {
	return func(c *action.Config) {
		d := c.Targets["do"]
		f(&d)
		c.Targets["do"] = d
	}
}

func idempotent(d *action.Definition) { d.Idempotent = true }

func slots(n int) func(*action.Config) { return func(c *action.Config) { c.Slots = n } }

// run has the service tick until the test ends, or stop is called.
func (r *fixture) run() (stop func()) {
	p := rig.Run(r.T, r.Service)
	synctest.Wait()
	return p.Stop
}

// until lets time pass until then.
func (r *fixture) until(d time.Duration) { rig.Pass(time.Until(r.At(d))) }

// tick makes one tick, and lets what it began come to its end if that takes no time.
func (r *fixture) tick() {
	r.T.Helper()
	if err := r.Tick(r.T.Context()); err != nil {
		r.T.Errorf("Tick: %v", err)
	}
	synctest.Wait()
}

func (r *fixture) add(req action.Request) action.Action {
	r.T.Helper()
	a, _, err := r.Add(r.T.Context(), fill(req))
	check.OK(r.T, err)
	return a
}

func fill(req action.Request) action.Request {
	fillIn(&req.Tenant, "acme")
	fillIn(&req.Slug, "app")
	fillIn(&req.Target, "do")
	return req
}

func fillIn(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// receive receives a webhook.
func (r *fixture) receive(body, delivery string) action.Action {
	r.T.Helper()
	a, _, err := r.Receive(r.T.Context(), action.Received{Tenant: "acme", Slug: "app", Target: "do", Body: []byte(body), Delivery: delivery})
	check.OK(r.T, err)
	return a
}

// get returns an action of acme.
func (r *fixture) get(id string) action.Action {
	r.T.Helper()
	a, err := r.Get(r.T.Context(), "acme", id)
	check.OK(r.T, err)
	return a
}

func (r *fixture) cancel(id, why string) action.Action {
	r.T.Helper()
	a, err := r.Cancel(r.T.Context(), "acme", id, why)
	check.OK(r.T, err)
	return a
}

func (r *fixture) retry(id string) action.Action {
	r.T.Helper()
	a, err := r.Retry(r.T.Context(), "acme", id)
	check.OK(r.T, err)
	return a
}

// wantStatus checks the status and the reason of an action, and returns it.
func (r *fixture) wantStatus(id string, status action.Status, reason string) action.Action {
	r.T.Helper()
	a := r.get(id)
	if a.Status != status || a.Reason != reason {
		r.T.Errorf("action %s is %s %q, want %s %q", id, a.Status, a.Reason, status, reason)
	}
	return a
}

// wantBody checks the body that is kept of a webhook.
func (r *fixture) wantBody(id, want string) {
	r.T.Helper()
	got, err := r.Body(r.T.Context(), "acme", id)
	if err != nil || string(got) != want {
		r.T.Errorf("the body is %q, %v, want %q", got, err, want)
	}
}

func (r *fixture) wantNoBody(id string) {
	r.T.Helper()
	if got, err := r.Body(r.T.Context(), "acme", id); !errors.Is(err, action.ErrNotFound) {
		r.T.Errorf("the body is %q, %v, want %v", got, err, action.ErrNotFound)
	}
	if page := r.Records("action.body"); len(page) > 0 {
		r.T.Errorf("bodies are kept: %v", page)
	}
}

// ran is a run that a target has seen.
type ran struct {
	action.Run
	began, ended time.Time // ended is zero while it runs
	cause        error     // why its context has ended, when it returned
}

// journal is a target that keeps what it was told to do. It does nothing, and has
// succeeded, unless it is told otherwise.
type journal struct {
	t  *testing.T
	mu sync.Mutex

	runs []*ran
	do   action.Func // nil means nothing
	late bool        // our clock is behind that of the store, so that all seems to be early
}

func newJournal(t *testing.T) *journal { return &journal{t: t} }

// will says what runs do from now on.
func (j *journal) will(do action.Func) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.do = do
}

// act notes a run, and does what it was told to.
func (j *journal) act(ctx context.Context, r action.Run) (action.Outcome, error) {
	j.mu.Lock()
	for _, other := range j.runs {
		if other.ended.IsZero() && other.Action.ID == r.Action.ID && other.Action.Tenant == r.Action.Tenant {
			j.t.Errorf("action %s runs twice at the same time", r.Action.ID)
		}
	}
	if due := r.Action.Due(); time.Now().Before(due) && !j.late {
		j.t.Errorf("action %s runs at %v, before it is due at %v", r.Action.ID, time.Now(), due)
	}
	n := &ran{Run: r, began: time.Now()}
	j.runs = append(j.runs, n)
	do := j.do
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		n.ended, n.cause = time.Now(), context.Cause(ctx)
	}()
	if do == nil {
		return action.Outcome{}, nil
	}
	return do(ctx, r)
}

// all returns what was run.
func (j *journal) all() []ran {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []ran
	for _, n := range j.runs {
		all = append(all, *n)
	}
	return all
}

// ids returns what was run, in order.
func (j *journal) ids() []string {
	var ids []string
	for _, n := range j.all() {
		ids = append(ids, n.Action.ID)
	}
	return ids
}

func (j *journal) wantIDs(want ...string) {
	j.t.Helper()
	check.Equal(j.t, "were run", j.ids(), want)
}

// last returns the last run.
func (j *journal) last() ran {
	j.t.Helper()
	all := j.all()
	if len(all) == 0 {
		j.t.Fatal("nothing was run")
	}
	return all[len(all)-1]
}

// takes returns what takes a while, or until its context ends.
func takes(d time.Duration) action.Func {
	return func(ctx context.Context, _ action.Run) (action.Outcome, error) {
		select {
		case <-time.After(d):
			return action.Outcome{}, nil
		case <-ctx.Done():
			return action.Outcome{Output: "interrupted"}, ctx.Err()
		}
	}
}

// blocks returns a function that runs until it is released.
func blocks(release <-chan struct{}) action.Func {
	return func(context.Context, action.Run) (action.Outcome, error) {
		<-release
		return action.Outcome{}, nil
	}
}

// fails returns what fails.
func fails(why string) action.Func {
	return func(context.Context, action.Run) (action.Outcome, error) {
		return action.Outcome{ExitCode: 3}, errors.New(why)
	}
}
