package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config configures a [Relay].
type Config struct {
	// Store holds the messages. The relay does not close it.
	Store store.Store

	// Sinks are the sinks that this process publishes to, at least one. Messages for other
	// sinks wait for a process that has them.
	Sinks []Sink

	// Notes records the outcome of each envelope. Nil means that outcomes are not recorded.
	Notes Notes

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// MeterProvider receives the metrics. Nil means the global provider of OpenTelemetry.
	MeterProvider metric.MeterProvider

	// Clock measures waits; due times are those of the store's clock. Nil means the system's
	// clock.
	Clock clock.Clock

	// LeaseDuration is how long a batch stays leased to this process without renewal. Zero
	// means 30 s.
	LeaseDuration time.Duration

	// DrainTimeout is how long Run waits for publications in progress when its context ends.
	// Zero means 10 s.
	DrainTimeout time.Duration
}

// Relay publishes what waits in the outbox.
type Relay struct {
	cfg    Config
	log    *slog.Logger
	clock  base.Clock
	meters *meters
	keeper *lease.Keeper

	publishers map[string]*publisher
	backlog    backlog
}

// New returns a relay. It does nothing until [Relay.Run].
func New(cfg Config) (*Relay, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("outbox: Config.Store is missing: %w", bus.ErrInvalid)
	}
	if len(cfg.Sinks) == 0 {
		return nil, fmt.Errorf("outbox: Config.Sinks is empty, and there is nothing to publish to: %w", bus.ErrInvalid)
	}
	cfg.Sinks = append([]Sink(nil), cfg.Sinks...)
	names := map[string]bool{}
	for i := range cfg.Sinks {
		s := &cfg.Sinks[i]
		s.setDefaults()
		if err := s.validate(); err != nil {
			return nil, err
		}
		if names[s.Name] {
			return nil, fmt.Errorf("outbox: two sinks have the name %q: %w", s.Name, bus.ErrInvalid)
		}
		names[s.Name] = true
	}
	if cfg.LeaseDuration == 0 {
		cfg.LeaseDuration = 30 * time.Second
	}
	if cfg.LeaseDuration < store.MinLease || cfg.LeaseDuration > store.MaxLease {
		return nil, fmt.Errorf("outbox: Config.LeaseDuration is %v; %v to %v is allowed: %w", cfg.LeaseDuration, store.MinLease, store.MaxLease, bus.ErrInvalid)
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 10 * time.Second
	}
	if cfg.DrainTimeout < 0 {
		return nil, fmt.Errorf("outbox: Config.DrainTimeout is %v, which is negative: %w", cfg.DrainTimeout, bus.ErrInvalid)
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Store = outage.Watch(outage.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "outbox"})
	meters, err := newMeters(cfg.MeterProvider)
	if err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: cfg, log: cfg.Logger, clock: cfg.Clock, meters: meters,
		keeper:     lease.NewKeeper(lease.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Lease: cfg.LeaseDuration}),
		publishers: map[string]*publisher{},
	}
	for i := range cfg.Sinks {
		sink := &cfg.Sinks[i]
		r.publishers[sink.Name] = &publisher{r: r, sink: sink, breaker: newBreaker(r.clock), slots: make(chan struct{}, sink.Publishers)}
	}
	return r, nil
}

// Run publishes until ctx ends, then waits for what is under way, and returns nil. It
// returns an error only if the store was closed or has failed.
func (r *Relay) Run(ctx context.Context) error {
	work, abandon := claimloop.Drain(ctx, r.clock, r.cfg.DrainTimeout)
	defer abandon()
	loops, claiming := errgroup.WithContext(ctx)
	for _, p := range r.publishers {
		for range p.sink.Publishers {
			loops.Go(func() error { return p.serve(claiming, work) })
		}
	}
	return loops.Wait()
}

// gather is how much time there is between two batches of a publisher that are neither
// small nor full: many small ones cost more than a few large ones.
const gather = 5 * time.Millisecond

// publisher publishes to one sink, in as many goroutines as call serve.
type publisher struct {
	r       *Relay
	sink    *Sink
	breaker *breaker
	slots   chan struct{} // one for each batch that is being published
	speed   speed
}

// serve claims and publishes until claiming ends.
func (p *publisher) serve(claiming, work context.Context) error {
	behind := 0 // 1 if there was more than could be claimed
	note := func(now int) {
		p.r.backlog.add(now - behind)
		behind = now
	}
	defer note(0)
	loop := claimloop.Loop{
		Store: p.r.cfg.Store, Clock: p.r.clock, Gather: gather,
		Request: store.ClaimRequest{
			Queue: Queue, Routes: []string{p.sink.Name},
			Max: p.sink.Batch, MaxMessages: 1, Lease: p.r.cfg.LeaseDuration,
		},
		Prepare: func(ctx context.Context, req *store.ClaimRequest) bool {
			if p.breaker.open(p.r.clock) {
				note(0) // nobody needs to wait for a sink that accepts nothing
			}
			p.breaker.wait(ctx, p.r.clock)
			if behind > 0 {
				req.Wait = 0 // who was behind looks first whether it still is
			}
			return ctx.Err() == nil
		},
		Claimed: func(most, n int) { note(n / most) },
		Handle: func(_ context.Context, claims []store.Claim) error {
			p.publish(work, claims)
			return nil
		},
	}
	return loop.Run(claiming)
}

// publish publishes the envelopes of claims, and commits their outcomes.
func (p *publisher) publish(ctx context.Context, claims []store.Claim) {
	items := make([]*item, len(claims))
	for i := range claims {
		items[i] = newItem(&claims[i], p.sink)
	}
	p.deliver(ctx, items, p.sink.Timeout)
}

// deliver publishes the envelopes of items, and commits their outcomes.
func (p *publisher) deliver(ctx context.Context, items []*item, timeout time.Duration) {
	leases := make([]store.Lease, len(items))
	var envelopes []bus.Envelope
	var sent []*item
	for i, it := range items {
		leases[i] = it.claim.Lease()
		p.r.keeper.Keep(it.claim, nil) // what is lost is found out when it is settled
		if it.Err == nil {
			envelopes = append(envelopes, it.Envelope)
			sent = append(sent, it)
		}
	}
	defer p.r.keeper.Drop(leases...)
	if len(sent) > 0 {
		began := p.r.clock.Now()
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := p.safely(limited, envelopes)
		cancel()
		took := p.r.clock.Now().Sub(began)
		p.speed.note(took, err)
		for i, outcome := range bus.Outcomes(err, len(sent)) {
			sent[i].settle(outcome, sent[0].claim.Now.Add(took), p.sink)
			if outcome != nil && ctx.Err() != nil {
				sent[i].State = lost // it is for the next process to try
			}
		}
		p.breaker.note(sent, p.r.clock.Now())
		items = p.giveBack(items)
	}
	p.commit(items)
	p.count(items)
}

// safely makes an error of a panic, and waits while as many batches are being published
// as may be.
func (p *publisher) safely(ctx context.Context, envelopes []bus.Envelope) (err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return fmt.Errorf("outbox: sink %q is busy: %w", p.sink.Name, ctx.Err())
	}
	if caught := claimloop.Catch(func() { err = p.sink.Bus.Publish(ctx, envelopes) }); caught != nil {
		err = fmt.Errorf("outbox: sink %q panicked: %v", p.sink.Name, caught.Value)
	}
	return err
}

// giveBack lets another process have what this one did not come to an end with, and
// returns the others.
func (p *publisher) giveBack(items []*item) (others []*item) {
	var unsettled []store.Lease
	items = slices.DeleteFunc(items, func(it *item) bool {
		if it.State == lost {
			unsettled = append(unsettled, it.claim.Lease())
		}
		return it.State == lost
	})
	_ = claimloop.Release(p.r.cfg.Store, p.r.cfg.LeaseDuration, unsettled...)
	return items
}
