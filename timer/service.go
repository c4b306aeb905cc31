package timer

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config is what a service is made of.
type Config struct {
	// Store keeps the timers. It stays the caller's.
	Store store.Store

	// Sinks are where envelopes go. A service that only schedules needs none; one that
	// runs needs at least one.
	Sinks []outbox.Sink

	// SinksOf returns the names of the sinks that a tenant's envelopes go to, which may be
	// sinks of other processes; with none, timers fire and nothing is published. Nil means
	// all of Sinks.
	SinksOf func(tenant string) []string

	// Quota is how many armed timers a tenant may have: any number, if it is 0. QuotaOf,
	// if not nil, returns that of a tenant. See [ErrQuota].
	//
	// The number of armed timers is counted when a service first needs it, and kept up to
	// date with what the service itself does. What other processes do is noticed within
	// a minute, so that much more than the quota may be armed by all of them together.
	Quota   int
	QuotaOf func(tenant string) int

	// MaxPayload is the largest payload of a timer, in bytes: [DefaultPayload], unless it
	// says otherwise.
	MaxPayload int

	// Retention is how long fired and cancelled timers are kept: [DefaultRetention],
	// unless it says otherwise; a minute at least. Negative means for ever.
	Retention time.Duration

	// Batch is how many timers are fired in one commit at most: 512, unless it says
	// otherwise. Workers is how many batches are under way at a time: 4, unless it says
	// otherwise.
	Batch   int
	Workers int

	// Lease is how long a batch belongs to this process: 30 s, unless it says otherwise.
	Lease time.Duration

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger

	// Meter gets the metrics. Nil means the global one of OpenTelemetry.
	Meter metric.MeterProvider

	// Clock measures waits, and tells the time from which delays are counted, corrected
	// by how much it differs from that of the store. Nil means the system's.
	Clock base.Clock
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

// New returns a service. It fires nothing until [Service.Run].
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
	if s.meters, err = newMeters(cfg.Meter); err != nil {
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
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	if c.Lease < time.Second || c.Lease > store.MaxLease {
		return invalid("new service", "Config.Lease is %v; %v to %v is allowed", c.Lease, time.Second, store.MaxLease)
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
		Meter: s.cfg.Meter, Clock: s.clock, Lease: s.cfg.Lease,
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

// whole returns a time in whole milliseconds, as it is kept.
func whole(t time.Time) time.Time { return t.Truncate(time.Millisecond) }
