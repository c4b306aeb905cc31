package abide

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// DefaultStore is the store of a configuration that names none: the embedded store, in the
// folder abide-data of the working directory. The program has to import its package:
//
//	import _ "github.com/abidehq/abide/store/pebblestore"
const DefaultStore = "pebble://./abide-data"

// Config says what an engine serves, and how. The zero value of each field is a good
// choice.
type Config struct {
	// Store is the URL of the store. Empty means [DefaultStore]. The package of the backend
	// must be imported, as database drivers are: package abide links none.
	Store string

	// Serve is what this process runs: see [Serve]. An engine that serves nothing is a
	// client.
	Serve []Definition

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger

	// Meter counts and measures: see docs/metrics.md for what. Nil means the global
	// provider of OpenTelemetry, which does nothing unless the program has set one.
	Meter metric.MeterProvider

	// Tracer makes a span for each turn and each attempt at an activity, when they are
	// committed. Nil means none: traces are kept with the instances, and so are asked for.
	// An instance that is started within a trace hands that on to its activities and
	// children all the same.
	Tracer trace.TracerProvider

	// Codec turns values into bytes. Nil means [JSON].
	Codec Codec

	// MaxTurns and MaxActivities are how many are under way at a time in this process:
	// 256 each, unless they say otherwise.
	MaxTurns      int
	MaxActivities int

	// Cache is how many waiting instances keep their code in memory, so that it need not
	// be replayed: 1,024, unless it says otherwise. Each takes about 20 kB.
	Cache int

	// Lease is how long a turn or an activity belongs to this process after it was last
	// heard of: 30 s, unless it says otherwise. The embedded store does not wait for that
	// after a crash.
	Lease time.Duration

	// Retention is how long an ended instance is kept: a week, unless it says otherwise;
	// negative means for ever.
	Retention time.Duration

	// StepGroup is how long a turn goes on with steps before what they did is made
	// durable: 20 ms, unless it says otherwise; negative means that each step is made
	// durable before the code goes on.
	StepGroup time.Duration

	// Blocked is how long the code of an orchestration may do nothing that Abide sees
	// before its instance stalls: 10 s, unless it says otherwise; negative means for ever.
	Blocked time.Duration

	// Drain is how long Close waits for activities: 10 s, unless it says otherwise.
	Drain time.Duration

	// MaxHistory is the number of events at which an instance stalls: 100,000, unless it
	// says otherwise. MaxHistoryBytes is the same in bytes: 256 MiB. See [HistorySizeOf].
	MaxHistory      int
	MaxHistoryBytes int

	// Build identifies the program, so that an instance that has stalled because of its code
	// goes on under another build: see docs/deploys.md. Empty means the revision of the
	// program's source, as Go has noted it in the binary, or the version of its main module;
	// if neither is known, the engine takes no part. At most 128 bytes.
	Build string

	// Quota limits what [Client.Start] starts for each tenant in this process.
	Quota Quota

	// Worker is the name under which this process shows among the workers: see
	// [Client.Workers]. Empty means that it does not show. A process that shows commits
	// three small records a minute.
	Worker string
}

// Quota limits what is started for each tenant. A start beyond it returns [ErrQuota]. Children
// that orchestrations start do not count.
type Quota struct {
	// Open is how many instances may be open at a time; 0 means any number. They are counted
	// once a minute, and again when there seem to be too many: processes that start at the
	// same time can exceed it by what they start meanwhile.
	Open int

	// Unserved is how many different orchestrations may be started that no worker serves, see
	// [Client.Workers], since this process was started; 0 means any number.
	Unserved int
}

// Definition is an [Orchestration] or an [Activity].
type Definition interface {
	define(d *definitions) error
}

// Serve returns its arguments, for [Config.Serve].
func Serve(definitions ...Definition) []Definition { return definitions }

// definitions are what an engine serves, by route and by name.
type definitions struct {
	orchestrations map[string]func(environment) replay.Code
	activities     map[string]func(Codec) engine.Activity
}

// Engine serves orchestrations and activities until it is closed. It is a [Client] too.
type Engine struct {
	*client
	e     *engine.Engine
	store store.Store
	drain time.Duration
	close func() error // of the store, if it is the engine's
}

var _ Client = (*Engine)(nil)

// Open opens a store and serves what the configuration names. A mistake in it, such as
// a name that is registered twice, is an error that matches [ErrInvalid]. A store into which
// a copy was begun and not finished is refused, with [store.ErrIncomplete].
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Store == "" {
		cfg.Store = DefaultStore
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

// New serves what the configuration names, on a store that stays the caller's: close it
// after the engine. [Config.Store] is ignored. Whether the store is an unfinished copy is for
// who opens it to ask: see [store.Whole].
func New(s store.Store, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Codec = orJSON(cfg.Codec)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Drain == 0 {
		cfg.Drain = engine.DefaultDrain
	}
	d, err := define(cfg.Serve)
	if err != nil {
		return nil, err
	}
	code := d.code(cfg.Codec, cfg.Logger)
	routes, names := slices.Sorted(maps.Keys(code)), slices.Sorted(maps.Keys(d.activities))
	activities := map[string]engine.Activity{}
	for name, f := range d.activities {
		activities[name] = f(cfg.Codec)
	}
	e, err := engine.New(engine.Config{
		Store: s, Logger: cfg.Logger, Meter: cfg.Meter, Tracer: cfg.Tracer, Executor: code, Routes: routes, Activities: activities,
		MaxTurns: cfg.MaxTurns, MaxActivities: cfg.MaxActivities, Cache: cfg.Cache, Lease: cfg.Lease,
		Retention: cfg.Retention, StepGroup: cfg.StepGroup, Blocked: cfg.Blocked, MaxHistory: cfg.MaxHistory,
		MaxHistoryBytes: cfg.MaxHistoryBytes, Worker: cfg.Worker, Build: cfg.Build, Quota: engine.Quota(cfg.Quota),
	})
	if err != nil {
		return nil, err
	}
	return &Engine{
		client: &client{e.Client, cfg.Codec, routes, names}, e: e, store: s, drain: cfg.Drain,
		close: func() error { return nil },
	}, nil
}

// NewClient returns a client of what is in a store, which serves nothing. A nil codec
// means [JSON].
func NewClient(s store.Store, codec Codec) Client {
	return &client{c: engine.NewClient(s, base.System{}), codec: orJSON(codec)}
}

// define collects what is to be served.
func define(serve []Definition) (*definitions, error) {
	d := &definitions{
		orchestrations: map[string]func(environment) replay.Code{},
		activities:     map[string]func(Codec) engine.Activity{},
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
		"MaxTurns": c.MaxTurns, "MaxActivities": c.MaxActivities, "Cache": c.Cache,
		"MaxHistory": c.MaxHistory, "MaxHistoryBytes": c.MaxHistoryBytes,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("abide: config: %s is %d: must not be negative: %w", name, n, ErrInvalid))
		}
	}
	if c.Lease != 0 && (c.Lease < minLease || c.Lease > store.MaxLease) {
		errs = append(errs, fmt.Errorf("abide: config: Lease is %v, %v to %v is allowed: %w", c.Lease, minLease, store.MaxLease, ErrInvalid))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("abide: config: Drain is %v: must not be negative: %w", c.Drain, ErrInvalid))
	}
	_, err := define(c.Serve)
	return errors.Join(append(errs, checkWorker(c.Worker), checkBuild(c.Build), err)...)
}

// minLease is long enough that a busy process can renew in time.
const minLease = 100 * time.Millisecond

// Close stops claiming, waits up to [Config.Drain] for the activities that are under way,
// tells those that remain to stop, and closes the store if the engine has opened it.
// What was under way is run again by whoever serves it next.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.drain)
	defer cancel()
	return e.Shutdown(ctx)
}

// Shutdown is Close with a time of the caller's: it waits until ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	return errors.Join(e.e.Close(ctx), e.close())
}

// Done is closed when the engine serves nothing any more: it was closed, or its store has
// failed. See [Engine.Err] for which.
func (e *Engine) Done() <-chan struct{} { return e.e.Done() }

// Err returns nil while the engine serves and after it was closed. After its store has failed,
// such as by a disk that does not sync, it returns an error that matches [store.ErrFailed]: the
// engine claims nothing any more, and the program should end, so that another process opens
// the store again.
func (e *Engine) Err() error { return e.e.Err() }

// Store returns the store that the engine works on: the one that was given to [New], or
// that [Open] has opened. What is committed to it directly is not among the engine's
// [Engine.Changes].
func (e *Engine) Store() store.Store { return e.store }

// randomID returns an ID for an instance that was given none.
func randomID() string { return rand.Text() }
