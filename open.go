package abide

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/dial"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
)

// DefaultStore is the store of a configuration that names none: the embedded store, in the
// folder abide-data of the working directory. The program has to import its package:
//
//	import _ "github.com/abidehq/abide/store/pebblestore"
const DefaultStore = "pebble://./abide-data"

// Config configures an [Engine]. The zero value of each field is a good choice.
type Config struct {
	// Store is the URL of the store. Empty means [DefaultStore]. The package of the backend
	// must be imported, as database drivers are: package abide links none.
	//
	// It can be that of a server instead, abide://host:7172, which has this process run what it
	// registers: see docs/workers.md. Then package remote must be imported.
	Store string

	// Token is what a server asks for. Empty means the one in the URL of Store, or else that of the
	// environment variable ABIDE_TOKEN. A store needs none.
	Token string

	// Register lists the orchestrations and activities that this process runs. An engine
	// that registers none is a client.
	Register []Definition

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// Clock is the clock of the engine. Nil means that of the machine. Messages become visible
	// by the clock of the store in either case.
	Clock clock.Clock

	// MeterProvider receives the metrics of the engine, see docs/metrics.md. Nil means the
	// global provider of OpenTelemetry, which discards them unless the program has set one.
	MeterProvider metric.MeterProvider

	// TracerProvider receives a span for each turn and each attempt at an activity when it
	// is committed, and, of a program that runs them for a server elsewhere, one for each activity
	// that it has run. Nil means no spans. Instances keep the trace context with which they were
	// started, and pass it on to activities and children, in either case.
	TracerProvider trace.TracerProvider

	// Codec encodes and decodes values. Nil means [JSON].
	Codec Codec

	// MaxTurns and MaxActivities limit how many turns and activities run concurrently in
	// this process. Zero means 256.
	MaxTurns      int
	MaxActivities int

	// MaxInFlight limits how many attempts of an activity run concurrently in this process, by the
	// name of an activity in Register, so that one that is slow cannot take all of MaxActivities:
	//
	//	MaxInFlight: map[string]int{"render": 4},
	//
	// What is beyond that is not claimed: it stays in the store for other processes, and takes no slot. An activity
	// that is not named is limited by MaxActivities alone. For a limit over all processes see [NewLimit].
	MaxInFlight map[string]int

	// CacheSize is the number of waiting instances whose code stays in memory, so that it
	// is not replayed. Each takes about 20 kB. Zero means 1,024.
	CacheSize int

	// LeaseDuration is how long a turn or an activity stays leased to this process without
	// renewal. After a crash, another process takes over when the lease has expired; the
	// embedded store does not wait for that. Zero means 30 s.
	LeaseDuration time.Duration

	// Retention is how long an ended instance is kept. Zero means a week, and a negative
	// value means for ever.
	Retention time.Duration

	// StepCommitInterval is how long a turn goes on with steps before their results are
	// committed. Zero means 20 ms, and a negative value commits after each step.
	StepCommitInterval time.Duration

	// DeadlockTimeout is how long the code of an orchestration may run without waiting for
	// Abide before its instance is marked stalled. Zero means 10 s, and a negative value
	// means no limit.
	DeadlockTimeout time.Duration

	// DrainTimeout is how long [Engine.Close] waits for running activities. Zero means 10 s.
	DrainTimeout time.Duration

	// MaxHistory is the number of events at which an instance stalls, 100,000 if it is zero.
	// MaxHistoryBytes is the same in bytes, 256 MiB if it is zero. See [HistorySizeOf].
	MaxHistory      int
	MaxHistoryBytes int

	// Build identifies the program: an instance that has stalled because of its code is
	// resumed by a process with another build, see docs/deploying.md. Empty means the VCS
	// revision of the binary, or the version of its main module; if neither is known, no
	// instance is resumed automatically, and none can be pinned, see [Builds]. At most 128 bytes.
	Build string

	// Quota limits what [Client.Start] starts for each tenant in this process.
	Quota Quota

	// WorkerName is the name of this process among the workers, see [Client.Workers]. Empty
	// means the name of the host and the number of the process, for example web-1:4711; a process
	// that registers nothing is then not listed. A listed process commits three small records a
	// minute.
	WorkerName string

	// Unlisted keeps the process out of the list of workers, so that an idle process commits
	// nothing. Other processes then report what it registers as unserved.
	Unlisted bool
}

// Quota limits the instances of each tenant. A start beyond it returns [ErrQuota]. Children do not
// count.
type Quota struct {
	// Open limits the number of instances that have not ended; 0 means no limit. The process
	// counts them once a minute, and again when the limit seems to be reached: processes that
	// start instances concurrently can exceed the limit by what they start meanwhile.
	Open int

	// Unserved limits the number of different orchestrations that no worker runs, see
	// [Client.Workers], and that were started since this process began; 0 means no limit.
	Unserved int
}

// Definition is an [Orchestration], an [Activity] or an [Entity].
type Definition interface {
	define(d *definitions) error
}

// definitions are the registered orchestrations by route, and activities and entities by name.
type definitions struct {
	orchestrations map[string]func(environment) replay.Code
	activities     map[string]func(Codec) engine.Activity
	entities       map[string]func(Codec) engine.EntityCode
	signatures     []func(Codec) engine.Signature
	pins           map[string]engine.Pin // by route, of those that do not follow
}

// Engine runs orchestrations and activities until it is closed.
type Engine struct {
	// Client starts, inspects and controls instances on the store of the engine.
	*Client

	e     *engine.Engine // nil if a server elsewhere has it
	link  dial.Link      // nil if there is no such server
	store store.Store
	drain time.Duration
	close func() error // closes the store if the engine has opened it
}

var _ Caller = (*Engine)(nil)

// Open opens the store of the configuration and returns an engine on it. An invalid
// configuration, such as a name that is registered twice, is an error that matches [ErrInvalid].
// A store that is the target of an unfinished copy is refused with [store.ErrIncomplete].
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Store == "" {
		cfg.Store = DefaultStore
	}
	if strings.HasPrefix(cfg.Store, dial.Scheme+"://") {
		return connect(ctx, cfg)
	}
	s, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return nil, fmt.Errorf("abide: open: %w", err)
	}
	if err := store.Whole(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("abide: open: %w", err), s.Close())
	}
	e, err := New(s, cfg)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	e.close = s.Close
	return e, nil
}

// New returns an engine on an open store, which the caller closes after the engine.
// [Config.Store] is ignored. Unlike [Open], New does not check for an unfinished copy, see
// [store.Whole].
func New(s store.Store, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	p, err := cfg.program()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{
		Store: s, Clock: cfg.Clock, Logger: cfg.Logger, MeterProvider: cfg.MeterProvider, TracerProvider: cfg.TracerProvider, Executor: p.code, Routes: p.routes, Pins: p.pins, Activities: p.activities, Entities: p.entities,
		MaxTurns: cfg.MaxTurns, MaxActivities: cfg.MaxActivities, MaxInFlight: cfg.MaxInFlight, CacheSize: cfg.CacheSize, LeaseDuration: cfg.LeaseDuration,
		Retention: cfg.Retention, StepCommitInterval: cfg.StepCommitInterval, DeadlockTimeout: cfg.DeadlockTimeout, MaxHistory: cfg.MaxHistory,
		MaxHistoryBytes: cfg.MaxHistoryBytes, WorkerName: cfg.workerName(), Build: cfg.Build, Quota: engine.Quota(cfg.Quota),
		Signatures: p.signatures, Ready: func(c *engine.Client) { p.learner.learn = c.Learn },
	})
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(p.activities))
	t := &engineTransport{storeTransport{client: e.Client, engine: e, routes: e.Routes(), activities: names}}
	return &Engine{
		Client: ClientOver(t, cfg.Codec), e: e, store: s, drain: cfg.DrainTimeout,
		close: func() error { return nil },
	}, nil
}

func (c *Config) setDefaults() {
	c.Codec = orJSON(c.Codec)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = engine.DefaultDrain
	}
}

// program is what the engine is given to run.
type program struct {
	code       engine.Code
	routes     []string
	pins       map[string]engine.Pin
	activities map[string]engine.Activity
	entities   map[string]engine.EntityCode
	signatures []engine.Signature
	learner    *learner
}

// program returns what the configuration registers.
func (c *Config) program() (*program, error) {
	d, err := define(c.Register)
	if err != nil {
		return nil, err
	}
	p := &program{learner: &learner{}, activities: map[string]engine.Activity{}, entities: map[string]engine.EntityCode{}}
	p.code, p.pins = d.code(c.Codec, c.Logger, p.learner), d.pins
	p.routes = slices.Sorted(maps.Keys(p.code))
	for _, f := range d.signatures {
		p.signatures = append(p.signatures, f(c.Codec))
	}
	for name, f := range d.activities {
		p.activities[name] = f(c.Codec)
	}
	for name, f := range d.entities {
		p.entities[name] = f(c.Codec)
	}
	return p, nil
}

// learner passes on which events orchestrations wait for to the engine that runs them. It is set
// before the engine runs any code.
type learner struct {
	learn func(route, event string, s *schema.Schema) string
}

// code returns the functions of the orchestrations, by route.
func (d *definitions) code(codec Codec, logger *slog.Logger, l *learner) engine.Code {
	code := engine.Code{}
	for route, f := range d.orchestrations {
		code[route] = func(ref engine.Ref) replay.Code {
			return f(environment{codec: codec, logger: logger, tenant: ref.Tenant, route: route, learner: l})
		}
	}
	return code
}

// define collects definitions and checks their names.
func define(serve []Definition) (*definitions, error) {
	d := &definitions{
		orchestrations: map[string]func(environment) replay.Code{},
		activities:     map[string]func(Codec) engine.Activity{},
		entities:       map[string]func(Codec) engine.EntityCode{},
		pins:           map[string]engine.Pin{},
	}
	var errs []error
	for i, def := range serve {
		if def == nil {
			errs = append(errs, fmt.Errorf("abide: definition %d is nil: %w", i, ErrInvalid))
			continue
		}
		if err := def.define(d); err != nil {
			errs = append(errs, err)
		}
	}
	return d, errors.Join(errs...)
}

func (c *Config) check() error {
	var errs []error
	for name, n := range map[string]int{
		"MaxTurns": c.MaxTurns, "MaxActivities": c.MaxActivities, "CacheSize": c.CacheSize,
		"MaxHistory": c.MaxHistory, "MaxHistoryBytes": c.MaxHistoryBytes,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("abide: config: %s is %d: must not be negative: %w", name, n, ErrInvalid))
		}
	}
	if c.LeaseDuration != 0 && (c.LeaseDuration < minLease || c.LeaseDuration > store.MaxLease) {
		errs = append(errs, fmt.Errorf("abide: config: LeaseDuration is %v, %v to %v is allowed: %w", c.LeaseDuration, minLease, store.MaxLease, ErrInvalid))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("abide: config: DrainTimeout is %v: must not be negative: %w", c.DrainTimeout, ErrInvalid))
	}
	d, err := define(c.Register)
	errs = append(errs, c.checkInFlight(d)...)
	return errors.Join(append(errs, checkWorker(c.WorkerName), checkBuild(c.Build), err)...)
}

// checkInFlight returns what is wrong with MaxInFlight.
func (c *Config) checkInFlight(d *definitions) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(c.MaxInFlight)) {
		if n := c.MaxInFlight[name]; n < 1 {
			errs = append(errs, fmt.Errorf("abide: config: MaxInFlight of activity %q is %d: must be 1 at least: %w", name, n, ErrInvalid))
		}
		if d.activities[name] == nil {
			errs = append(errs, fmt.Errorf("abide: config: MaxInFlight names activity %q, which is not in Register: %w", name, ErrInvalid))
		}
	}
	return errs
}

// minLease is the shortest lease that a busy process can renew in time.
const minLease = 100 * time.Millisecond

// Close stops claiming work, waits up to [Config.DrainTimeout] for running activities, cancels
// those that remain with the cause [ErrStopping], and closes the store if [Open] has opened it.
// Activities that were cancelled are executed again by the next process that registers them.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.drain)
	defer cancel()
	return e.Shutdown(ctx)
}

// Shutdown is like Close, but waits for running activities until ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	if e.link != nil {
		return e.link.Close(ctx)
	}
	return errors.Join(e.e.Close(ctx), e.close())
}

// Done returns a channel that is closed when the engine has stopped, because it was closed or
// because its store has failed. [Engine.Err] tells which.
func (e *Engine) Done() <-chan struct{} {
	if e.link != nil {
		return e.link.Done()
	}
	return e.e.Done()
}

// Drained is closed when an operator has drained this worker, see [Client.DrainWorker], and what was under way
// has ended. The engine runs nothing from then on, and is a client until it is closed. A program that does
// nothing else may close it and exit:
//
//	select {
//	case <-engine.Drained():
//	case <-ctx.Done():
//	}
//	return engine.Close()
func (e *Engine) Drained() <-chan struct{} {
	if e.e == nil {
		return e.link.Drained()
	}
	return e.e.Drained()
}

// Err returns nil while the engine runs and after it was closed. If its store has failed, such as
// by a disk that does not sync, Err returns an error that matches [store.ErrFailed]: the engine
// claims no more work, and the program should exit, so that a new process opens the store.
func (e *Engine) Err() error {
	if e.link != nil {
		return nil
	}
	return e.e.Err()
}

// Store returns the store of the engine, and nil if a server elsewhere has it. Commits that are made to
// it directly are not among [Engine.Changes].
func (e *Engine) Store() store.Store { return e.store }

// newID returns an ID for an instance that was given none: see [base.NewID].
func newID() string { return base.NewID(base.System{}.Now()) }
