package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// What clients know of the flows.
var (
	numbered  = abide.NewEvent[int]("numbered")
	collector = abide.OrchestrationNamed[collected, []int]("collector")
	worker    = abide.OrchestrationNamed[int, workDone]("worker")
	sleeper   = abide.OrchestrationNamed[time.Duration, string]("sleeper")
	parent    = abide.OrchestrationNamed[int, string]("parent")
	deployed  = abide.OrchestrationNamed[int, string]("deployed")
	racer     = abide.OrchestrationNamed[time.Duration, string]("racer")
	effect    = abide.ActivityNamed[effectIn, int]("effect")
)

// collected is what an execution of a collector begins with.
type collected struct{ Got []int }

// stopValue is the event that ends a collector.
const stopValue = -1

// workDone is the result of a worker.
type workDone struct{ Nonce, Sum int }

// effectIn is the input of an activity: one piece of work of an instance.
type effectIn struct {
	ID    string
	I     int
	Nonce int // of the step that came before, or 0
}

// retries is the policy of activities: they are tried until they succeed, soon.
var retries = abide.Retry(0).Backoff(100*time.Millisecond, 2, time.Second)

// flowsOf returns what a process serves. The functions tell the ledger what they do.
func (w *world) flowsOf(p *process) []abide.Definition {
	return []abide.Definition{
		abide.NewOrchestration(collector.Name(), w.runCollector),
		abide.NewOrchestration(worker.Name(), func(ctx abide.Context, n int) (workDone, error) { return w.runWorker(ctx, p, n) }),
		abide.NewOrchestration(sleeper.Name(), w.runSleeper),
		abide.NewOrchestration(parent.Name(), w.runParent),
		abide.NewOrchestration(racer.Name(), w.runRacer),
		abide.NewOrchestration(deployed.Name(), func(ctx abide.Context, n int) (string, error) { return w.runDeployed(ctx, p, n) }),
		abide.NewOrchestration(mover.Name(), w.runMover),
		w.boxes(p),
		abide.NewActivity(effect.Name(), func(ctx context.Context, in effectIn) (int, error) { return w.runEffect(ctx, p, in) }),
	}
}

// runCollector receives events until it is told to stop, over several executions.
func (w *world) runCollector(ctx abide.Context, in collected) ([]int, error) {
	self := abide.Self(ctx).ID
	for range 4 {
		v, err := numbered.Wait(ctx)
		if err != nil {
			return in.Got, err
		}
		if v == stopValue {
			return in.Got, nil
		}
		in.Got = append(in.Got, v)
		if v%3 == 0 {
			if _, err := effect.Call(ctx, effectIn{ID: self, I: v}, retries); err != nil {
				return in.Got, err
			}
		}
	}
	return nil, abide.ContinueAsNew(ctx, in)
}

// runWorker runs a step, whose result all activities after it must see.
func (w *world) runWorker(ctx abide.Context, p *process, n int) (workDone, error) {
	self := abide.Self(ctx).ID
	var out workDone
	var err error
	if out.Nonce, err = abide.Step(ctx, "nonce", func(context.Context) (int, error) { return w.drawNonce(p), nil }); err != nil {
		return out, err
	}
	for i := range n {
		k, err := effect.Call(ctx, effectIn{ID: self, I: i, Nonce: out.Nonce}, retries)
		if err != nil {
			return out, err
		}
		out.Sum += k
		if i == 0 {
			if err := w.nap(ctx, 1500*time.Millisecond); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (w *world) runSleeper(ctx abide.Context, d time.Duration) (string, error) {
	if d > maxNap { // a child that does not listen
		ctx = abide.Shield(ctx)
	}
	return "slept", w.nap(ctx, d)
}

// nap sleeps, and checks that it was long enough.
func (w *world) nap(ctx abide.Context, d time.Duration) error {
	began := abide.Now(ctx)
	if err := abide.Sleep(ctx, d, abide.Named("nap")); err != nil {
		return err
	}
	if woke := abide.Now(ctx); woke.Before(began.Add(d)) || w.clock.Now().Before(began.Add(d).Truncate(time.Millisecond)) {
		w.problem("%s woke %v early", abide.Self(ctx).ID, began.Add(d).Sub(woke))
	}
	return nil
}

// maxNap is the longest sleep of which the end is waited for.
const maxNap = time.Minute

// runParent starts children with all policies, gives some of them up, and waits for the
// others, or ends before them.
func (w *world) runParent(ctx abide.Context, kind int) (string, error) {
	self := abide.Self(ctx).ID
	policies := []abide.ClosePolicy{abide.CancelChild, abide.TerminateChild, abide.AbandonChild}
	var told []string
	var children []*abide.Future[string]
	for i, policy := range policies {
		d := time.Duration(1+i) * time.Second
		if policy == abide.TerminateChild && kind%2 == 0 {
			d = stubborn // nothing but the policy ends it
		}
		children = append(children, sleeper.Go(ctx, d, abide.ID(fmt.Sprintf("%s/%d", self, i)), abide.OnParentClose(policy)))
	}
	if kind%3 == 0 {
		children[1].Cancel(ctx)
	}
	if kind%2 == 0 { // it ends first
		return "left", w.nap(ctx, time.Duration(kind)*300*time.Millisecond)
	}
	for _, c := range children {
		out, err := c.Get(ctx)
		if cause := abide.Cause(ctx); cause != nil {
			return "", cause
		}
		if err != nil {
			out = "failed"
		}
		told = append(told, out)
	}
	return strings.Join(told, " "), nil
}

// stubborn is how long a child sleeps that ends only with its parent.
const stubborn = 1000 * time.Hour

// runRacer has an event and a timer race.
func (w *world) runRacer(ctx abide.Context, d time.Duration) (string, error) {
	v, err := numbered.Wait(ctx, abide.Timeout(d))
	switch {
	case errors.Is(err, abide.ErrTimeout):
		return "timeout", nil
	case err != nil:
		return "", err
	default:
		return fmt.Sprint("event ", v), nil
	}
}

// runDeployed is a flow that the new build changes. The change is guarded by a marker, which
// the old build does not know; and where n is even, the old build has a bug that panics.
func (w *world) runDeployed(ctx abide.Context, p *process, n int) (string, error) {
	self := abide.Self(ctx).ID
	for i := range 3 {
		if p.build == newBuild && abide.Changed(ctx, fmt.Sprintf("audit %d", i)) {
			if _, err := effect.Call(ctx, effectIn{ID: self, I: 100 + i}, retries); err != nil {
				return "", err
			}
		}
		if _, err := effect.Call(ctx, effectIn{ID: self, I: i}, retries); err != nil {
			return "", err
		}
		if p.build == oldBuild && n%2 == 0 && i == 1 {
			panic("a bug of the old build")
		}
		if err := w.nap(ctx, time.Second); err != nil {
			return "", err
		}
	}
	return "deployed", nil
}

// runEffect is an activity: it takes some time, and fails now and then.
func (w *world) runEffect(ctx context.Context, p *process, in effectIn) (int, error) {
	info, _ := abide.ActivityOf(ctx)
	run := w.beginEffect(ctx, p, in)
	defer w.endEffect(run)
	d := time.Duration(w.chance(4, "takes %v %d", in, info.Attempt)) * 700 * time.Millisecond
	if w.chance(5, "long %v", in) == 0 { // longer than a lease
		d += 2 * lease
	}
	if err := after(ctx, d); err != nil {
		return 0, err
	}
	if p.gone() {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	if !w.quietNow() && w.chance(4, "fails %v %d", in, info.Attempt) == 0 {
		return 0, errors.New("the effect fails")
	}
	w.done(run)
	return in.I + 1, nil
}
