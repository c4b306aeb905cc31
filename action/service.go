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
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config is what a service is made of.
type Config struct {
	// Store keeps the actions. It stays the caller's.
	Store store.Store

	// Targets by name. A service that only adds actions needs none. Actions for targets that
	// no process has wait; the log, the answer to who adds them ([Action.Warning]) and the
	// list of what no worker serves say so.
	Targets map[string]Definition

	// Rate is how often there is a tick: each minute, unless it says otherwise.
	Rate time.Duration

	// Slots is how many actions run at a time: 16, unless it says otherwise. What finds no
	// free slot stays pending until there is one.
	Slots int

	// Lease is how long an action belongs to this process after it was last heard of: twice
	// the rate, but at least 30 s and at most a day, unless it says otherwise.
	Lease time.Duration

	// Drain is how long Run waits for running actions when it is to stop: 10 s, unless it
	// says otherwise. Then they are interrupted: those that are idempotent are run again
	// later, the others have failed. If the store is in trouble and this cannot be noted
	// for as long again, it is left to the next process, as if this one had died.
	Drain time.Duration

	// Output is how much output of a run is kept, in bytes: [DefaultOutput], unless it says
	// otherwise; negative means none.
	Output int

	// Retention is how long actions are kept that have ended: [DefaultRetention], unless it
	// says otherwise; negative means for ever.
	Retention time.Duration

	// Worker is the name under which the service shows among workers while it runs: see
	// abide.Client.Workers. Other processes then know which targets are served. Empty means
	// that it does not show. A service that shows commits a record every 20 s.
	Worker string

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger

	// Meter gets the metrics. Nil means the global one of OpenTelemetry.
	Meter metric.MeterProvider

	// Clock measures the rate and how long things take; what is due when is up to the clock
	// of the store. Nil means the system's.
	Clock base.Clock
}

// Service adds actions and, while it runs, does them.
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
	running  sync.WaitGroup
	unserved unserved
	left     atomic.Bool // something due found no slot
	loop     *tick.Loop
	fail     context.CancelCauseFunc // ends Run
	work     context.Context         //nolint:containedctx // that of all runs; ends when they are interrupted
	stop     context.CancelCauseFunc

	settling context.Context //nolint:containedctx // that of all commits of outcomes; ends when Run waits no longer
	giveUp   context.CancelFunc
}

// New returns a service. It does nothing until [Service.Run].
func New(cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Store = outage.Watch(outage.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "actions"})
	s := &Service{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, clock: cfg.Clock,
		time:    base.NewRemote(cfg.Clock, cfg.Logger, storeTime(cfg.Store)),
		keeper:  lease.NewKeeper(lease.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Lease: cfg.Lease}),
		targets: slices.Sorted(maps.Keys(cfg.Targets)),
		slots:   make(chan struct{}, cfg.Slots),

		unserved: unserved{noted: map[string]bool{}},
	}
	s.loop = tick.New(cfg.Rate, cfg.Clock, s.tickOnce)
	s.work, s.stop = context.WithCancelCause(context.Background())
	s.settling, s.giveUp = context.WithCancel(context.Background())
	var err error
	if s.meters, err = newMeters(cfg.Meter); err != nil {
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
	setDefault(&c.Lease, min(max(2*c.Rate, 30*time.Second), store.MaxLease))
	setDefault(&c.Drain, 10*time.Second)
	setDefault(&c.Output, DefaultOutput)
	setDefault(&c.Retention, DefaultRetention)
	switch {
	case c.Rate < MinRate || c.Rate > MaxRate:
		return invalid(verb, "Config.Rate is %v; %v to %v is allowed", c.Rate, MinRate, MaxRate)
	case c.Slots < 1 || c.Slots > 100_000:
		return invalid(verb, "Config.Slots is %d; 1 to 100000 is allowed", c.Slots)
	case c.Lease < time.Second || c.Lease > store.MaxLease:
		return invalid(verb, "Config.Lease is %v; %v to %v is allowed", c.Lease, time.Second, store.MaxLease)
	case c.Drain < 0:
		return invalid(verb, "Config.Drain is %v, which is negative", c.Drain)
	case len(c.Worker) > MaxWorker || !utf8.ValidString(c.Worker):
		return invalid(verb, "Config.Worker is %.64q; UTF-8 text of at most %d bytes is allowed", c.Worker, MaxWorker)
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

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
