package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Config configures an [Engine].
type Config struct {
	// Store holds all state. The engine does not close it.
	Store store.Store

	// Clock measures durations; due times are those of the store's clock. Nil means the
	// system's clock.
	Clock base.Clock

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// MeterProvider receives metrics, and TracerProvider spans. Without a meter provider it is
	// the global one of OpenTelemetry; without a tracer provider there are no spans.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Executor runs the orchestrations of Routes.
	Executor Executor
	Routes   []string

	// Activities by name.
	Activities map[string]Activity

	// Entities by name, which is in lower case.
	Entities map[string]EntityCode

	// Discovery, if not nil, finds more orchestrations, which the Executor runs too, more
	// activities, which Discovered runs, and more entities, which DiscoveredEntity runs.
	Discovery        Discovery
	Discovered       Activity
	DiscoveredEntity EntityCode

	// Runtime says what runs the code if that is not this release of Go's SDK: a language and the
	// version of its SDK. Instances that the engine runs say so.
	Runtime string

	// Tenants are those whose instances the engine runs; nil means all. There are at most
	// [store.MaxClaimTenants]. What its client starts for others is run by other engines.
	Tenants []string

	// Signatures describe Routes and Activities for other processes. The engine publishes them, and
	// its client checks starts and events; without any it does neither.
	Signatures []catalog.Signature

	// Ready, if not nil, is called with the client of the engine before any code runs.
	Ready func(*Client)

	// MaxTurns, MaxActivities and MaxEntities limit how many run concurrently.
	MaxTurns      int
	MaxActivities int
	MaxEntities   int

	// MaxInFlight limits how many attempts of an activity run concurrently, by its name. Those that it does not
	// name are limited by MaxActivities alone.
	MaxInFlight map[string]int

	// CacheSize is the number of waiting instances whose code stays in memory.
	CacheSize int

	// LeaseDuration is how long a turn or an activity stays leased without renewal.
	LeaseDuration time.Duration

	// Retention is how long an ended instance is kept; negative means for ever.
	Retention time.Duration

	// StepCommitInterval is how long a turn goes on with steps before their results are
	// committed. A negative value commits after each step.
	StepCommitInterval time.Duration

	// DeadlockTimeout is how long the code of an orchestration may run without waiting for
	// the engine before its instance stalls. A negative value means no limit.
	DeadlockTimeout time.Duration

	// TurnAttempts is how often a message may be delivered to an instance, and not come
	// to a commit, before the instance stalls. TaskCrashes is how often in a row an
	// activity may be begun, and not come to an end because its process was lost, before
	// it fails with TypeCrashed, whatever its retry policy says.
	TurnAttempts int
	TaskCrashes  int

	// Unknown is how long a message or a history that a later release has written is left to
	// processes that know it, before it is dealt with as what cannot be read.
	Unknown time.Duration

	// FuseWithin is how long what causes a turn waits for the turn, to be committed with it, before it is committed
	// alone: see fuse.go. 0 means 10 ms, and 50 ms for code elsewhere.
	FuseWithin time.Duration

	// Unfused has every turn claimed, for tests of what only turns with a claim do: see fuse.go.
	Unfused bool

	// Build identifies the program: see [trial]. Empty means that of [ProgramBuild].
	Build string

	// Pins says of routes how their instances are pinned to builds. Those that it does not name are
	// not. Peers, if not nil, is shared by the engines of a process on one store.
	Pins  map[string]Pin
	Peers *Peers

	// Quota limits what is started for each tenant by this process.
	Quota Quota

	// WorkerName is the name of this process among the workers. Empty means that it is not
	// listed.
	WorkerName string

	// Drained is called when an operator has drained the engine, with a channel that is closed when what was
	// under way has ended. It must not block. Nil means that nothing is called.
	Drained func(ended <-chan struct{})

	// Elsewhere is set if the code runs in another process, which the executor and the activities
	// reach: its Host, PID, Version and Run, and its State, which may be that it was drained. Then Build
	// and WorkerName are those of that process, and the gauges of this one, which count the store, are
	// left to another engine.
	Elsewhere *Worker

	// MaxHistory, MaxHistoryBytes, MaxOpen and MaxEntityBacklog replace the limits of that name.
	MaxHistory       int
	MaxHistoryBytes  int
	MaxOpen          int
	MaxEntityBacklog int
}

func (c *Config) setDefaults() {
	if c.Clock == nil {
		c.Clock = base.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Build == "" && c.Elsewhere == nil {
		c.Build = ProgramBuild()
	}
	setDefault(&c.MaxTurns, DefaultTurns)
	setDefault(&c.MaxActivities, DefaultActivities)
	setDefault(&c.MaxEntities, DefaultTurns)
	setDefault(&c.CacheSize, DefaultCache)
	setDefault(&c.LeaseDuration, DefaultLease)
	setDefault(&c.Retention, DefaultRetention)
	setDefault(&c.StepCommitInterval, DefaultStepGroup)
	setDefault(&c.DeadlockTimeout, DefaultBlocked)
	setDefault(&c.TurnAttempts, DefaultTurnAttempts)
	setDefault(&c.TaskCrashes, DefaultTaskCrashes)
	setDefault(&c.Unknown, DefaultUnknown)
	setDefault(&c.MaxHistory, MaxHistory)
	setDefault(&c.MaxHistoryBytes, MaxHistoryBytes)
	setDefault(&c.MaxOpen, MaxOpen)
	setDefault(&c.MaxEntityBacklog, MaxEntityBacklog)
}

// process returns the name of the process that runs the code.
func (c *Config) process() string {
	if w := c.Elsewhere; w != nil {
		return w.Process()
	}
	return base.ProcessName()
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Activity runs an activity. The context ends when nobody waits for the result any
// more; see [context.Cause] for why.
type Activity func(ctx context.Context, t *Task) ([]byte, *history.Failure)

// Engine serves instances and activities until it is closed. It is a [Client] too.
type Engine struct {
	*Client

	cfg      Config
	log      *slog.Logger
	clock    base.Clock
	store    store.Store // the feed
	feed     *feed
	gates    *gateCommits
	siblings *siblings
	roster   *roster.Publisher

	// workerID identifies the engine among workers, and owner says who claims: see roster.Owner.
	workerID, owner string
	cache           *cache
	keeper          *lease.Keeper
	dog             *watchdog
	turns           turns // under way
	count           Counters

	meters    *meters
	unobserve func() // has the gauges show nothing any more
	tracer    trace.Tracer

	served    served
	fuser     *fuser
	turning   *slots // of orchestrations
	acting    *slots // of activities
	operating *slots // of entities
	closers   closers

	suspects suspects
	deferred deferrals
	unknown  seenKeys
	rules    ruleMemory
	builds   *builders
	unserved unserved

	lifecycle
}

// lifecycle is how an engine ends: it stops claiming, waits for its loops and then for its work, and is
// done. A store that has failed makes it done at once; Close still waits for the work.
type lifecycle struct {
	claiming     context.Context //nolint:containedctx // ends when the engine claims no more
	stopClaiming context.CancelFunc
	working      context.Context //nolint:containedctx // ends when what is under way should stop
	stopWorking  context.CancelCauseFunc

	done    chan struct{} // closed when the engine serves nothing any more
	ended   sync.Once     // closes it
	failure error         // why it was closed; written before

	idle chan struct{} // closed when the engine was drained and what was under way has ended

	closing sync.RWMutex   // held while work is added that was not claimed
	loops   sync.WaitGroup // that claim
	work    sync.WaitGroup // that is under way
	close   sync.Once
	closed  func() // see OnNew
}

// noticeWithin bounds how long it takes until an activity learns that it was cancelled by
// another process: leases are renewed at least so often.
const noticeWithin = time.Second

// callLeases is how many leases a commit or a read of the engine may take. After that its
// outcome is unknown: the lease is not renewed any more, and what was claimed is claimed again.
const callLeases = 2

// New starts an engine.
func New(cfg Config) (*Engine, error) {
	cfg.setDefaults()
	if cfg.Store == nil {
		return nil, fmt.Errorf("abide: no store: %w", ErrInvalid)
	}
	if err := errors.Join(cfg.checkPins(), cfg.checkCaps()); err != nil {
		return nil, err
	}
	if cfg.Tenants != nil && len(cfg.Tenants) == 0 || len(cfg.Tenants) > store.MaxClaimTenants {
		return nil, fmt.Errorf("abide: the engine is limited to %d tenants, 1 to %d are allowed: %w", len(cfg.Tenants), store.MaxClaimTenants, ErrInvalid)
	}
	if err := cfg.Store.Limits().Check(); err != nil {
		return nil, fmt.Errorf("abide: the store takes too little: %w", err)
	}
	closed := func() {}
	if onNew != nil {
		closed = onNew(&cfg)
	}
	e := &Engine{cfg: cfg, log: cfg.Logger, clock: cfg.Clock, lifecycle: lifecycle{done: make(chan struct{}), idle: make(chan struct{}), closed: closed}}
	e.workerID = unique()
	e.owner = roster.Owner(e.workerID, cfg.WorkerName, cfg.process())
	e.turning, e.acting = newSlots(e, "orchestration", cfg.MaxTurns), newSlots(e, "activity", cfg.MaxActivities)
	e.acting.caps = claimloop.NewCaps(cfg.MaxInFlight)
	e.operating = newSlots(e, "entity", cfg.MaxEntities)
	e.closers.slots = e.turning
	e.cache = newCache(cfg.CacheSize, e.closers.end)
	e.siblings = newSiblings()
	if parent, ok := cfg.Store.(*feed); ok {
		e.siblings = parent.siblings
		e.cache.hold = func(key store.Key, in *instance) { e.siblings.hold(key, in, e) }
		e.closers.drop = func(in *instance) { e.siblings.drop(in.info.Ref.key(), in) }
	}
	e.feed = newFeed(outage.Watch(outage.Config{
		Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "engine", Limit: callLeases * cfg.LeaseDuration, Failed: e.fail,
	}), cfg.Clock)
	e.feed.siblings = e.siblings
	if parent, ok := cfg.Store.(*feed); ok && parent.gates != nil {
		e.gates = parent.gates // they take what this feed passes on
	} else {
		e.gates = newGateCommits(e, e.feed.Store)
		e.feed.gates = e.gates
	}
	e.store, e.Client = e.feed, NewClient(e.feed, cfg.Clock)
	e.Client.limits, e.Client.tenants = cfg.Store.Limits(), cfg.Tenants
	e.Client.rewound = e.rewind
	e.admit()
	e.claiming, e.stopClaiming = context.WithCancel(context.Background())
	e.working, e.stopWorking = context.WithCancelCause(context.Background())
	if cfg.Signatures != nil {
		for i := range cfg.Signatures {
			cfg.Signatures[i].Build = cfg.Build
		}
		e.Client.catalog = catalog.New(e.store, cfg.Clock, cfg.Signatures)
	}
	e.discover()
	if cfg.Peers != nil {
		e.Client.peers = cfg.Peers
	}
	e.builds = newBuilders(e)
	e.fuser = newFuser(e)
	e.Client.fuser, e.feed.puts = e.fuser, e.fuser.notePuts
	e.quotas = newQuotas(e.Client, cfg.Quota, cfg.Routes)
	if err := e.instrument(); err != nil {
		return nil, err
	}
	e.keeper = lease.NewKeeper(lease.Config{
		Store: e.store, Clock: e.clock, Logger: e.log, Lease: cfg.LeaseDuration, Every: noticeWithin,
	})
	e.unserved = unserved{logged: map[[3]string]time.Time{}, wake: make(chan struct{}, 1)}
	e.feed.unserved = e.unserved.wake
	e.dog = newWatchdog(e.clock, cfg.DeadlockTimeout)
	if cfg.Ready != nil {
		cfg.Ready(e.Client)
	}
	if e.builds != nil {
		e.loops.Go(e.builds.run)
	}
	if e.catalog != nil && len(cfg.Signatures) > 0 {
		published := e.catalog.Run(e.claiming, e.log)
		e.loops.Go(func() { <-published })
	}
	if observer, ok := cfg.Store.(*feed); ok && cfg.WorkerName != "" {
		e.unserved.wake = observer.unserved
		e.unserved.ask()
	} else {
		e.loops.Go(e.serveUnserved)
	}
	listed := make(chan struct{}) // closed when there is a roster to which names are reported
	if cfg.Discovery != nil {
		e.loops.Go(func() {
			<-listed
			e.keepNames()
		})
	}
	if w := cfg.Elsewhere; w != nil && w.State == roster.Draining {
		e.drain() // and nothing is claimed before
	} else {
		e.serveAll()
	}
	e.roster = newRoster(e) // the last: a request to drain the worker ends the loops
	close(listed)
	return e, nil
}

// serveAll begins to claim.
func (e *Engine) serveAll() {
	e.loops.Go(e.serveControl)
	e.loops.Go(e.serveGates)
	e.loops.Go(e.serveTurns)
	if len(e.cfg.Activities) > 0 || e.cfg.Discovery != nil {
		e.loops.Go(e.serveActivities)
	}
	if len(e.cfg.Entities) > 0 || e.cfg.Discovery != nil {
		e.loops.Go(e.serveEntities)
	}
	if len(e.cfg.Routes) > 0 && e.cfg.Build != "" {
		e.loops.Go(e.serveStalled)
	}
}

// Observed returns the store of the engine, for other engines on it: what they commit is among the changes
// of this one.
func (e *Engine) Observed() store.Store { return e.feed }

// Done is closed when the engine serves nothing any more: it was closed, or its store has
// failed.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err returns nil while the engine serves and after it was closed, and an error that matches
// [store.ErrFailed] after its store has failed.
func (e *Engine) Err() error {
	select {
	case <-e.done:
		return e.failure
	default:
		return nil
	}
}

// fail ends the engine because its store has failed: nothing can be claimed or committed.
func (e *Engine) fail(err error) {
	e.stopClaiming()
	e.end(fmt.Errorf("abide: the engine has stopped: %w", err))
}

func (e *Engine) end(why error) {
	e.ended.Do(func() {
		e.failure = why
		close(e.done)
	})
}

// Close stops claiming, and waits for what is under way: activities, and turns. When
// ctx ends it tells them to stop, gives back what does not stop within a second, and
// returns ctx's error; what was given back is run again by the next process that claims it.
// Closing twice is fine.
func (e *Engine) Close(ctx context.Context) error {
	var err error
	e.close.Do(func() { err = e.stop(ctx) })
	return err
}

// StopClaiming has the engine claim nothing any more: those that run its code are lost. It does not wait.
func (e *Engine) StopClaiming() {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.stopClaiming()
}

// stop stops the engine. The order is:
//
//  1. No more claims. The loops end, so that nothing is added to work from here on.
//  2. Work that is running comes to its end, until ctx ends; then its context ends with ErrStopping, and it
//     has one more second.
//  3. The keeper stops, and leases of work that did not return are released, so that other processes need
//     not wait for them to expire. From here on such work cannot commit.
//  4. The cache closes the code of all instances that wait, whose deferred functions run.
//  5. The roster, readers of changes and gauges end, and Done is closed.
func (e *Engine) stop(ctx context.Context) error {
	e.StopClaiming()
	e.loops.Wait()
	if e.turning.running.Load()+e.acting.running.Load()+e.operating.running.Load() > 0 {
		e.roster.Draining()
	}
	worked := make(chan struct{})
	go func() {
		e.work.Wait()
		close(worked)
	}()
	late := sync.OnceValue(func() <-chan struct{} { // begins when ctx has ended
		c := make(chan struct{})
		e.clock.AfterFunc(time.Second, func() { close(c) })
		return c
	})
	err := e.await(ctx, worked, late, "work was still under way")
	e.stopWorking(ErrStopping)
	e.dog.stop()
	if left := e.keeper.Stop(); len(left) > 0 { // of work that did not stop when it was told to
		if err := claimloop.Release(e.store, time.Second, left...); err != nil {
			e.log.Debug("claims not released, their leases expire", "claims", len(left), "error", err)
		}
	}
	e.cache.end()
	if unclosed := e.await(ctx, e.closers.wait(), late, "deferred functions of orchestrations were still running"); err == nil {
		err = unclosed
	}
	e.roster.Stop()
	e.feed.end(ErrStopping)
	e.unobserve()
	e.limiter.Close()
	e.bulk.Close()
	e.closed()
	e.end(nil)
	return err
}

// await waits until done is closed. When ctx ends it tells what is under way to stop, waits
// until it is late, and returns ctx's error.
func (e *Engine) await(ctx context.Context, done <-chan struct{}, late func() <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	e.stopWorking(ErrStopping)
	select {
	case <-done:
	case <-late():
	}
	return fmt.Errorf("abide: close: %s: %w", what, ctx.Err())
}

// expected reports whether an error means that another process has the claim now.
func expected(err error) bool {
	return errors.Is(err, store.ErrClaimLost) || errors.Is(err, store.ErrConflict)
}
