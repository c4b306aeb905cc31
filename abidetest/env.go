package abidetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// DefaultLimit is how much virtual time a test waits for an instance to end, unless
// [Env.Limit] says otherwise.
const DefaultLimit = 365 * 24 * time.Hour

// lifetime is how much virtual time a test has at all, in limits. Then its engine is
// closed, and so is the test that waits for it in a way of its own.
const lifetime = 5

// shift is how much virtual time passes between the end of a test and the replay of what ran in
// it. It changes the year, the month, the day and the time of day, so that a timer whose time
// was computed from the wall clock has another time in the replay.
const shift = 397*24*time.Hour + 13*time.Hour + 17*time.Minute + 19*time.Second + 23*time.Millisecond

// Env is the world of a test: a store in memory, an engine, and a clock that stands still
// while anything is going on. Its methods fail the test where others would return an
// error; call them from the goroutine of the test, or from a function that was given to
// [Env.After] or [Env.At].
type Env struct {
	// Config is that of the engine. Change it before the engine is used; its Store and
	// Serve are of no use. Without a change, ended instances are kept for ever, and the
	// engine's log is part of the test's output.
	Config abide.Config

	// Limit is how much virtual time to wait for an instance to end: [DefaultLimit], unless
	// it says otherwise.
	Limit time.Duration

	t     *testing.T
	clock base.Clock
	store *memstore.Store

	mu     sync.Mutex
	served []definition
	stubs  map[string]any // by the name of the activity
	engine *abide.Engine
	used   bool // there was an engine
	closed bool
	stops  []func() bool     // of what is to happen later
	ended  map[abide.Ref]int // the executions that had ended when the engine was restarted
	latest map[abide.Ref]int // the latest executions when what has run was replayed last
	older  map[abide.Ref]int // those of latest that code has begun which a restart has replaced
}

// testBuild is the build of tests of orchestrations that are pinned to builds: tests have none.
const testBuild = "test"

// definition is what is served, under what no two things can be served.
type definition struct {
	key string
	abide.Definition
}

func newEnv(t *testing.T) *Env {
	return &Env{
		Config: abide.Config{
			Retention: -1,
			Unlisted:  true, // a day of virtual time would have thousands of reports
			Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
		Limit: DefaultLimit,
		t:     t, clock: base.System{}, store: memstore.New(memstore.Options{}),
		stubs: map[string]any{}, ended: map[abide.Ref]int{}, latest: map[abide.Ref]int{},
	}
}

// Register registers orchestrations and activities with the engine of the test. An activity
// that is stubbed as well (see [Stub]) is the stub. Register is called before the engine is
// first used; [Env.Restart] changes what is registered after that.
func (env *Env) Register(definitions ...abide.Definition) {
	env.t.Helper()
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.engine != nil {
		env.t.Fatalf("abidetest: Register: the engine is in use: register before the first start, or use Restart")
	}
	for _, d := range definitions {
		key := env.keyOf(d)
		served := slices.ContainsFunc(env.served, func(s definition) bool { return s.key == key })
		switch {
		case served && env.stubbed(key):
			continue // the stub is what counts
		case served:
			env.t.Fatalf("abidetest: Register: %s is registered twice", key)
		}
		env.served = append(env.served, definition{key, d})
	}
}

// stubbed reports whether what is served under a key is a stub. The lock is held.
func (env *Env) stubbed(key string) bool {
	for name := range env.stubs {
		if activityKey(name) == key {
			return true
		}
	}
	return false
}

// keyOf returns what a definition is of.
func (env *Env) keyOf(d abide.Definition) string {
	env.t.Helper()
	switch d := d.(type) {
	case interface {
		Name() string
		Version() string
	}:
		return orchestrationKey(engine.Route(d.Name(), d.Version()))
	case interface {
		ID(key string) abide.EntityID
	}:
		return fmt.Sprintf("entity %q", d.ID("").Name)
	case interface{ Name() string }:
		return activityKey(d.Name())
	default:
		env.t.Fatalf("abidetest: %T is neither an orchestration nor an activity", d)
		return ""
	}
}

func orchestrationKey(route string) string { return fmt.Sprintf("orchestration %q", route) }

func activityKey(name string) string { return fmt.Sprintf("activity %q", name) }

// put adds or replaces a definition. The lock is held.
func (env *Env) put(d definition) {
	i := slices.IndexFunc(env.served, func(s definition) bool { return s.key == d.key })
	if i < 0 {
		env.served = append(env.served, d)
	} else {
		env.served[i] = d
	}
}

// replayer replays histories against the registered code.
func (env *Env) replayer() (*abide.Replayer, error) {
	env.mu.Lock()
	list := env.definitions()
	env.mu.Unlock()
	return abide.NewReplayer(env.Config.Codec, env.Config.Logger, list...)
}

// definitions returns what is served. The lock is held.
func (env *Env) definitions() []abide.Definition {
	list := make([]abide.Definition, len(env.served))
	for i, d := range env.served {
		list[i] = d.Definition
	}
	return list
}

// Client returns a client of the engine, for [abide.Orchestration.Start],
// [abide.Event.Raise] and other functions that take one. Its waits give up after [Env.Limit],
// with an error that says what the instance waits for.
func (env *Env) Client() *abide.Client {
	env.t.Helper()
	env.open()
	c := abide.NewClient(env.store, env.Config.Codec)
	t := c.Transport().(operatorTransport)
	return abide.ClientOver(&transport{operatorTransport: t, env: env}, env.Config.Codec)
}

// Store returns the store of the test, for services that run beside orchestrations: a server,
// actions with schedules and webhooks, tenant timers. Stop them before the test ends, or have
// them use the context of its t, which ends before the store is closed.
func (env *Env) Store() store.Store { return env.store }

// open opens the engine if it is not open.
func (env *Env) open() {
	env.t.Helper()
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.engine != nil {
		return
	}
	if env.closed {
		env.t.Fatalf("abidetest: the environment is used after it was closed")
	}
	cfg := env.Config
	cfg.Register = env.definitions()
	e, err := abide.New(env.store, cfg)
	if errors.Is(err, engine.ErrNoBuild) {
		cfg.Build = testBuild
		e, err = abide.New(env.store, cfg)
	}
	if err != nil {
		env.t.Fatalf("abidetest: %v", err)
	}
	env.engine = e
	if !env.used {
		env.used = true
		env.stops = append(env.stops, env.clock.AfterFunc(lifetime*env.Limit, env.outlived))
	}
}

// Restart closes the engine and opens another one, as a deploy does: all code is replayed
// before it continues. Definitions take the place of those of the same name and version, or
// come to those that there are. Activities that are under way have [abide.Config.DrainTimeout] to
// come to their end.
func (env *Env) Restart(definitions ...abide.Definition) {
	env.t.Helper()
	env.open()
	env.shut()
	env.replayAll()
	env.mu.Lock()
	for _, d := range definitions {
		env.put(definition{env.keyOf(d), d})
	}
	if len(definitions) > 0 {
		env.older = maps.Clone(env.latest)
	}
	env.mu.Unlock()
	env.open()
}

// Now returns the virtual time. It begins with the year 2000.
func (env *Env) Now() time.Time { return env.clock.Now() }

// After has f called when d of virtual time has passed from now, in a goroutine of its own.
func (env *Env) After(d time.Duration, f func()) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.stops = append(env.stops, env.clock.AfterFunc(d, f))
}

// At has f called when that time has come, in a goroutine of its own.
func (env *Env) At(at time.Time, f func()) { env.After(at.Sub(env.Now()), f) }

// Advance lets virtual time pass, and returns when everything that happens until then has
// happened. What waits for an instance, such as [Instance.Result], does not need it.
func (env *Env) Advance(d time.Duration) {
	env.t.Helper()
	env.open()
	env.pass(d)
	synctest.Wait()
}

// pass returns when d of virtual time has passed.
func (env *Env) pass(d time.Duration) {
	passed := make(chan struct{})
	env.clock.AfterFunc(d, func() { close(passed) })
	<-passed
}

// Settle returns when everything waits for time to pass, or for the test. Call it, like
// Advance, from the goroutine of the test alone.
func (env *Env) Settle() {
	env.t.Helper()
	env.open()
	synctest.Wait()
}

// outlived closes the engine of a test that waits for what never comes, in a way of its
// own: then time stops, and the bubble can tell.
func (env *Env) outlived() {
	env.t.Errorf("abidetest: the test has taken %v of virtual time, and is not over", lifetime*env.Limit)
	env.mu.Lock()
	env.closed = true
	env.mu.Unlock()
	env.shut()
}

// shut closes the engine.
func (env *Env) shut() {
	env.mu.Lock()
	e := env.engine
	env.engine = nil
	env.mu.Unlock()
	if e == nil {
		return
	}
	if err := e.Close(); err != nil {
		env.t.Errorf("abidetest: the engine is closed, and an activity, a stub or an orchestration does not come to its end: %v", err)
	}
}

// close ends the environment with the test.
func (env *Env) close() {
	env.mu.Lock()
	for _, stop := range env.stops {
		stop()
	}
	env.closed = true
	env.mu.Unlock()
	env.shut()
	if env.used && !env.t.Failed() {
		env.pass(shift)
		env.replayAll()
	}
	if err := env.store.Close(); err != nil {
		env.t.Errorf("abidetest: %v", err)
	}
}

// replayAll replays what has run. Instances that have stalled are left alone: that their
// code does not do what it did is known, and perhaps what the test is about.
func (env *Env) replayAll() {
	env.t.Helper()
	replayer, err := env.replayer()
	if err != nil {
		env.t.Fatalf("abidetest: %v", err)
	}
	c := abide.NewClient(env.store, env.Config.Codec)
	for info, err := range c.All(context.Background(), abide.Filter{}) {
		if err != nil {
			env.t.Fatalf("abidetest: %v", err)
		}
		env.latest[info.Ref] = info.Execution
		if info.Status == abide.Stalled {
			continue
		}
		done := env.ended[info.Ref]
		for execution := max(done+1, info.Execution-1); execution <= info.Execution; execution++ {
			h, err := c.History(context.Background(), info.Ref, execution)
			if err != nil {
				env.t.Fatalf("abidetest: %v", err)
			}
			replayer.SameTimes = execution > env.older[info.Ref]
			if _, err := replayer.Replay(&h); err != nil {
				env.t.Errorf("abidetest: instance %v does not do the same thing when it is replayed: %v", info.Ref, err)
			}
		}
		env.ended[info.Ref] = info.Execution - 1
		if info.Status.Ended() {
			env.ended[info.Ref] = info.Execution
		}
	}
}
