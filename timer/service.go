package timer

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config configures a [Service].
type Config struct {
	// Store holds the timers. The service does not close it.
	Store store.Store

	// Sinks are the sinks that this process publishes to. A service that runs needs at least
	// one; one that only schedules needs none.
	Sinks []outbox.Sink

	// SinksOf returns the names of a tenant's sinks, including sinks of other processes. If it
	// returns none, the tenant's timers fire and nothing is published. Nil means all of Sinks.
	SinksOf func(tenant string) []string

	// Quota is the largest number of armed timers of a tenant; 0 means no limit. QuotaOf, if not
	// nil, returns the quota of a tenant. See [ErrQuota].
	//
	// Armed timers are counted when the service first needs the number, which it then updates
	// with its own changes. Changes by other processes are seen within a minute, so several
	// processes together may exceed the quota.
	Quota   int
	QuotaOf func(tenant string) int

	// MaxPayload is the largest payload of a timer, in bytes. Zero means [DefaultPayload].
	MaxPayload int

	// Retention is how long fired and cancelled timers are kept, at least a minute. Zero means
	// [DefaultRetention], and a negative value means for ever.
	Retention time.Duration

	// Batch is the largest number of timers that are fired in one commit. Zero means 512.
	// Workers is how many batches are fired concurrently. Zero means 4.
	Batch   int
	Workers int

	// LeaseDuration is how long a batch of due timers stays leased to this process without
	// renewal. Zero means 30 s.
	LeaseDuration time.Duration

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// MeterProvider receives the metrics. Nil means the global provider of OpenTelemetry.
	MeterProvider metric.MeterProvider

	// Clock measures waits. Delays are counted from its time, corrected by its offset from
	// the store's clock. Nil means the system's clock.
	Clock clock.Clock
}

// Service schedules and fires timers.
type Service struct {
	cfg    Config
	store  store.Store
	log    *slog.Logger
	clock  base.Clock
	meters *meters
	sinks  []string
	quota  *quotas
	time   *base.Remote // the store's
}

// New returns a service, or an error that matches [ErrInvalid]. It fires no timers until
// [Service.Run].
func New(cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Store = outage.Watch(outage.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "timers"})
	s := &Service{cfg: cfg, store: cfg.Store, log: cfg.Logger, clock: cfg.Clock}
	s.time = base.NewRemote(cfg.Clock, cfg.Logger, func(ctx context.Context) (time.Time, error) {
		stats, err := cfg.Store.Stats(ctx)
		return stats.Now, err
	})
	for i := range cfg.Sinks {
		s.sinks = append(s.sinks, cfg.Sinks[i].Name)
	}
	s.quota = newQuotas(s)
	var err error
	if s.meters, err = newMeters(cfg.MeterProvider); err != nil {
		return nil, err
	}
	if len(cfg.Sinks) > 0 {
		if _, err := s.relay(); err != nil { // to find what is wrong with them now
			return nil, err
		}
	}
	return s, nil
}

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return invalid("new service", "Config.Store is missing")
	}
	for _, f := range []struct {
		name        string
		field       *int
		value       int
		least, most int
	}{
		{"Quota", &c.Quota, 0, 0, store.MaxCount},
		{"MaxPayload", &c.MaxPayload, DefaultPayload, 1, MaxPayload},
		{"Batch", &c.Batch, 512, 1, MaxBulk},
		{"Workers", &c.Workers, 4, 1, 64},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
		if *f.field < f.least || *f.field > f.most {
			return invalid("new service", "Config.%s is %d; %d to %d is allowed", f.name, *f.field, f.least, f.most)
		}
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.Retention > 0 && c.Retention < minRetention {
		return invalid("new service", "Config.Retention is %v; at least %v is allowed, or a negative one", c.Retention, minRetention)
	}
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 30 * time.Second
	}
	if c.LeaseDuration < time.Second || c.LeaseDuration > store.MaxLease {
		return invalid("new service", "Config.LeaseDuration is %v; %v to %v is allowed", c.LeaseDuration, time.Second, store.MaxLease)
	}
	if c.Clock == nil {
		c.Clock = base.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// relay returns what takes envelopes to the sinks.
func (s *Service) relay() (*outbox.Relay, error) {
	return outbox.New(outbox.Config{
		Store: s.store, Sinks: s.cfg.Sinks, Notes: notes{s}, Logger: s.log,
		MeterProvider: s.cfg.MeterProvider, Clock: s.clock, LeaseDuration: s.cfg.LeaseDuration,
	})
}

// sinksOf returns the sinks that a tenant's envelopes go to.
func (s *Service) sinksOf(tenant string) []string {
	if s.cfg.SinksOf == nil {
		return s.sinks
	}
	return s.cfg.SinksOf(tenant)
}

// now returns the store's time, as well as it can be told without asking each time.
func (s *Service) now(ctx context.Context) time.Time { return s.time.Now(ctx) }
