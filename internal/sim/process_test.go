package sim

import (
	"context"
	"fmt"
	"log/slog"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/timer"
)

// How the processes of a world are configured. Leases are short, so that held calls and
// frozen processes outlive them.
const (
	lease         = 4 * time.Second
	tickRate      = 2 * time.Second
	maxActivities = 3
	maxActions    = 2
)

// process is an engine, a timer service and an action service that share a gate, as they
// share a program.
type process struct {
	w       *world
	number  int
	build   string // of the program: builds differ in their flows
	engine  *abide.Engine
	timers  *timer.Service
	actions *action.Service
	cancel  context.CancelFunc
	done    chan struct{}

	// Guarded by the world's lock.
	dead        bool
	frozenUntil time.Time
}

// Builds of the program that is simulated. The old one is deployed first; see runDeployed.
const (
	oldBuild = "old"
	newBuild = "new"
)

// start starts a process of a build, which serves everything.
func (w *world) start(build string) *process {
	p := &process{w: w, number: len(w.procs), build: build, done: make(chan struct{})}
	w.note("process %d starts with the %s build", p.number, build)
	w.procs = append(w.procs, p)
	log := slog.New(slog.DiscardHandler)
	g := &gate{w, p}
	var err error
	if p.engine, err = abide.New(g, abide.Config{
		Register: w.flowsOf(p), Logger: log, LeaseDuration: lease, CacheSize: 3, MaxActivities: maxActivities + w.extraSlots, MaxTurns: 4,
		Retention: -1, DrainTimeout: time.Second, WorkerName: fmt.Sprintf("process %d", p.number), Build: build, StepCommitInterval: time.Duration(w.rnd.IntN(2)) * time.Second,
	}); err != nil {
		w.t.Fatal(err)
	}
	if p.timers, err = timer.New(timer.Config{
		Store: g, Logger: log, LeaseDuration: lease, Retention: -1, Batch: 4,
		Sinks: []outbox.Sink{w.sinkOf(p, "first"), w.sinkOf(p, "second")}, SinksOf: sinksOf,
	}); err != nil {
		w.t.Fatal(err)
	}
	target := action.Func(func(ctx context.Context, r action.Run) (action.Outcome, error) { return w.act(ctx, p, r) })
	if p.actions, err = action.New(action.Config{
		Store: g, Logger: log, LeaseDuration: lease, Retention: -1, Rate: tickRate, Slots: maxActions, DrainTimeout: time.Second,
		Targets: map[string]action.Definition{
			"once": {Target: target}, "again": {Target: target, Attempts: actionTries, Backoff: time.Second},
		},
	}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		ended := make(chan struct{}, 2)
		serve := func(name string, run func(context.Context) error) {
			if err := run(ctx); err != nil {
				w.problem("process %d: the service of %s ended: %v", p.number, name, err)
			}
			ended <- struct{}{}
		}
		go serve("timers", p.timers.Run)
		go serve("actions", p.actions.Run)
		<-ended
		<-ended
		_ = p.engine.Close()
	}()
	synctest.Wait() // what it draws at random when it starts is drawn before others draw
	return p
}

// client returns a process that serves nothing: where clients call from.
func (w *world) client() *process {
	p := &process{w: w, number: len(w.procs), done: make(chan struct{}), cancel: func() {}}
	close(p.done)
	w.procs = append(w.procs, p)
	g, log := &gate{w, p}, slog.New(slog.DiscardHandler)
	var err error
	if p.timers, err = timer.New(timer.Config{Store: g, Logger: log, SinksOf: sinksOf}); err != nil {
		w.t.Fatal(err)
	}
	if p.actions, err = action.New(action.Config{Store: g, Logger: log}); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// kill has a process die: nothing that it does from now on has an effect.
func (p *process) kill() {
	p.w.note("process %d is killed", p.number)
	p.w.abandon(p)
	p.cancel()
}

// stop ends a process in good order.
func (p *process) stop() {
	p.w.note("process %d is stopped", p.number)
	p.cancel()
}

// ended reports whether a process that was stopped or killed has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// freeze holds up all calls of a process for a while.
func (p *process) freeze(d time.Duration) {
	p.w.note("process %d is frozen for %v", p.number, d)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.frozenUntil = time.Now().Add(d)
}

// gone reports whether what the process does has no effect any more.
func (p *process) gone() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// frozen reports whether nothing happens in the process for now.
func (p *process) frozen() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return time.Now().Before(p.frozenUntil)
}

func (p *process) String() string { return fmt.Sprintf("process %d", p.number) }

// chance returns a number from 0 to n-1 that depends on the seed and on what it is drawn for,
// and not on when.
func (w *world) chance(n int, format string, args ...any) int {
	h := uint64(14695981039346656037) ^ w.seed
	for _, b := range []byte(fmt.Sprintf(format, args...)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 32
	return int((h * 0x9e3779b97f4a7c15 >> 33) % uint64(n))
}

// after returns when d has passed, or ctx has ended.
func after(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
