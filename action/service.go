package action

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/action/tick"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config configures a [Service].
type Config struct {
	// Store holds the actions. The service does not close it.
	Store store.Store

	// Targets are the targets that this process runs, by name. A service that only adds
	// actions needs none. An action whose target no process runs stays pending; [Action.Warning],
	// the log and the list of unserved names report it.
	Targets map[string]Definition

	// Rate is the interval between ticks. Zero means a minute.
	Rate time.Duration

	// Slots limits how many actions run concurrently. Zero means 16. An action stays pending
	// until a slot is free.
	Slots int

	// LeaseDuration is how long an action stays leased to this process without renewal. Zero
	// means twice the rate, but at least 30 s and at most a day.
	LeaseDuration time.Duration

	// DrainTimeout is how long Run waits for running actions when its context ends. Zero means
	// 10 s. Then they are interrupted: idempotent actions run again later, the others fail. If
	// the store does not accept that within as long again, their leases expire as after a
	// crash.
	DrainTimeout time.Duration

	// Output is how much of a run's output is kept, in bytes. Zero means [DefaultOutput], and
	// a negative value means none.
	Output int

	// Retention is how long ended actions are kept. Zero means [DefaultRetention], and a
	// negative value means for ever.
	Retention time.Duration

	// WorkerName is the name of the service among the workers while it runs, see
	// abide.Client.Workers: other processes then know which targets are served. Empty means the
	// name of the host and the number of the process, for example web-1:4711; a service without
	// targets is not listed. A listed service commits a record every 20 s.
	WorkerName string

	// Unlisted keeps the service out of the list of workers, so that an idle one commits nothing.
	// Other processes then report its targets as unserved.
	Unlisted bool

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// MeterProvider receives the metrics. Nil means the global provider of OpenTelemetry.
	MeterProvider metric.MeterProvider

	// Clock measures the rate and durations; due times are those of the store's clock. Nil
	// means the system's clock.
	Clock clock.Clock
}

// Service adds actions and, while Run is active, runs them.
type Service struct {
	cfg      Config
	store    store.Store
	log      *slog.Logger
	clock    base.Clock
	time     *base.Remote // the store's
	meters   *meters
	keeper   *lease.Keeper
	targets  []string
	slots    chan struct{} // one in it for each action that runs
	caps     *claimloop.Caps
	running  sync.WaitGroup
	unserved unserved
	left     atomic.Bool // something due found no slot, or may have found its target at its cap
	loop     *tick.Loop
	fail     context.CancelCauseFunc // ends Run
	work     context.Context         //nolint:containedctx // that of all runs; ends when they are interrupted
	stop     context.CancelCauseFunc

	settling context.Context //nolint:containedctx // that of all commits of outcomes; ends when Run waits no longer
	giveUp   context.CancelFunc
}

// New returns a service, or an error that matches [ErrInvalid]. It runs no actions until
// [Service.Run].
func New(cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Store = outage.Watch(outage.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "actions"})
	s := &Service{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, clock: cfg.Clock,
		time:    base.NewRemote(cfg.Clock, cfg.Logger, storeTime(cfg.Store)),
		keeper:  lease.NewKeeper(lease.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Lease: cfg.LeaseDuration}),
		targets: slices.Sorted(maps.Keys(cfg.Targets)),
		slots:   make(chan struct{}, cfg.Slots),
		caps:    cfg.caps(),

		unserved: unserved{noted: map[string]bool{}},
	}
	s.loop = tick.New(cfg.Rate, cfg.Clock, s.tickOnce)
	s.work, s.stop = context.WithCancelCause(context.Background())
	s.settling, s.giveUp = context.WithCancel(context.Background())
	var err error
	if s.meters, err = newMeters(cfg.MeterProvider); err != nil {
		return nil, err
	}
	return s, nil
}

func storeTime(s store.Store) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		stats, err := s.Stats(ctx)
		return stats.Now, err
	}
}

func (c *Config) setDefaults() error {
	const verb = "new service"
	if c.Store == nil {
		return invalid(verb, "Config.Store is missing")
	}
	c.Targets = maps.Clone(c.Targets)
	for name, d := range c.Targets {
		if err := d.setDefaults(name); err != nil {
			return err
		}
		c.Targets[name] = d
	}
	setDefault(&c.Rate, time.Minute)
	setDefault(&c.Slots, 16)
	setDefault(&c.LeaseDuration, min(max(2*c.Rate, 30*time.Second), store.MaxLease))
	setDefault(&c.DrainTimeout, 10*time.Second)
	setDefault(&c.Output, DefaultOutput)
	setDefault(&c.Retention, DefaultRetention)
	switch {
	case c.Rate < MinRate || c.Rate > MaxRate:
		return invalid(verb, "Config.Rate is %v; %v to %v is allowed", c.Rate, MinRate, MaxRate)
	case c.Slots < 1 || c.Slots > 100_000:
		return invalid(verb, "Config.Slots is %d; 1 to 100000 is allowed", c.Slots)
	case c.LeaseDuration < time.Second || c.LeaseDuration > store.MaxLease:
		return invalid(verb, "Config.LeaseDuration is %v; %v to %v is allowed", c.LeaseDuration, time.Second, store.MaxLease)
	case c.DrainTimeout < 0:
		return invalid(verb, "Config.DrainTimeout is %v, which is negative", c.DrainTimeout)
	case len(c.WorkerName) > MaxWorker || !utf8.ValidString(c.WorkerName):
		return invalid(verb, "Config.WorkerName is %.64q; UTF-8 text of at most %d bytes is allowed", c.WorkerName, MaxWorker)
	case c.Output > MaxOutput:
		return invalid(verb, "Config.Output is %d; at most %d is allowed", c.Output, MaxOutput)
	}
	if c.Clock == nil {
		c.Clock = base.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// caps returns how many actions of a target may run concurrently, of those that have a limit.
func (c *Config) caps() *claimloop.Caps {
	limits := map[string]int{}
	for name := range c.Targets {
		if most := c.Targets[name].MaxInFlight; most > 0 {
			limits[name] = most
		}
	}
	return claimloop.NewCaps(limits)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
