package action_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// rate is that of a rig's ticks.
const rate = 10 * time.Second

// rig is a service on a store in memory with one target, in a bubble of virtual time.
type rig struct {
	*action.Service
	*journal
	t     *testing.T
	store store.Store
	begun time.Time
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func newRig(t *testing.T, configure ...func(*action.Config)) *rig {
	t.Helper()
	s := teststore.New(t)
	t.Cleanup(func() { _ = s.Close() })
	return newRigOn(t, s, newJournal(t), configure...)
}

func newRigOn(t *testing.T, s store.Store, j *journal, configure ...func(*action.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: s, journal: j, begun: time.Now()}
	cfg := action.Config{
		Store: s, Rate: rate, Retention: -1, Logger: slog.New(slog.DiscardHandler),
		Targets: map[string]action.Definition{"do": {Target: action.Func(j.act)}},
	}
	for _, f := range configure {
		f(&cfg)
	}
	var err error
	if r.Service, err = action.New(cfg); err != nil {
		t.Fatal(err)
	}
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
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// pass lets time pass, and what happens then come to its end.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// at returns a time of the rig.
func (r *rig) at(d time.Duration) time.Time { return r.begun.Add(d).UTC() }

// until lets time pass until then.
func (r *rig) until(d time.Duration) { pass(time.Until(r.at(d))) }

// tick makes one tick, and lets what it began come to its end if that takes no time.
func (r *rig) tick() {
	r.t.Helper()
	if err := r.Tick(r.t.Context()); err != nil {
		r.t.Errorf("Tick: %v", err)
	}
	synctest.Wait()
}

func (r *rig) add(req action.Request) action.Action {
	r.t.Helper()
	a, _, err := r.Add(r.t.Context(), fill(req))
	check.OK(r.t, err)
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
func (r *rig) receive(body, delivery string) action.Action {
	r.t.Helper()
	a, _, err := r.Receive(r.t.Context(), action.Received{Tenant: "acme", Slug: "app", Target: "do", Body: []byte(body), Delivery: delivery})
	check.OK(r.t, err)
	return a
}

// get returns an action of acme.
func (r *rig) get(id string) action.Action {
	r.t.Helper()
	a, err := r.Get(r.t.Context(), "acme", id)
	check.OK(r.t, err)
	return a
}

func (r *rig) cancel(id, why string) action.Action {
	r.t.Helper()
	a, err := r.Cancel(r.t.Context(), "acme", id, why)
	check.OK(r.t, err)
	return a
}

func (r *rig) retry(id string) action.Action {
	r.t.Helper()
	a, err := r.Retry(r.t.Context(), "acme", id)
	check.OK(r.t, err)
	return a
}

// wantStatus checks the status and the reason of an action, and returns it.
func (r *rig) wantStatus(id string, status action.Status, reason string) action.Action {
	r.t.Helper()
	a := r.get(id)
	if a.Status != status || a.Reason != reason {
		r.t.Errorf("action %s is %s %q, want %s %q", id, a.Status, a.Reason, status, reason)
	}
	return a
}

// wantBody checks the body that is kept of a webhook.
func (r *rig) wantBody(id, want string) {
	r.t.Helper()
	got, err := r.Body(r.t.Context(), "acme", id)
	if err != nil || string(got) != want {
		r.t.Errorf("the body is %q, %v, want %q", got, err, want)
	}
}

func (r *rig) wantNoBody(id string) {
	r.t.Helper()
	if got, err := r.Body(r.t.Context(), "acme", id); !errors.Is(err, action.ErrNotFound) {
		r.t.Errorf("the body is %q, %v, want %v", got, err, action.ErrNotFound)
	}
	if page := r.records("action.body"); len(page) > 0 {
		r.t.Errorf("bodies are kept: %v", page)
	}
}

// records returns all records of a kind.
func (r *rig) records(kind string) []store.Record {
	r.t.Helper()
	page, err := r.store.List(context.Background(), store.Query{Kind: kind, Limit: store.MaxPage})
	check.OK(r.t, err)
	return page.Records
}

// messages returns how many messages wait in all queues.
func (r *rig) messages() int {
	r.t.Helper()
	stats, err := r.store.Stats(context.Background())
	check.OK(r.t, err)
	n := 0
	for _, route := range stats.Routes {
		n += route.Pending
	}
	return n
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

// blocks returns what goes on until it is released.
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

// wantEqual checks one thing.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantTime checks a time.
func wantTime(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantError checks that an error matches, is one line of this package, and says all of
// these.
func wantError(t *testing.T, err, want error, says ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that matches %v", err, want)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "action: ") {
		t.Errorf("error %q is not one line of this package", err)
	}
}
