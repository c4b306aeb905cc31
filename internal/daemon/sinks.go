package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/natsbus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/bus/redisbus"
	"github.com/abidehq/abide/bus/webhookbus"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/internal/demo"
)

// logSink is the sink of a server that has no other: what timers say is in its log.
const logSink = "log"

// makeSinks returns where the events of timers go.
func (p *parts) makeSinks(ctx context.Context, d *daemon) ([]outbox.Sink, error) {
	var sinks []outbox.Sink
	for i := range d.cfg.Sinks {
		s := &d.cfg.Sinks[i]
		b, err := p.openBus(ctx, d, s)
		if err != nil {
			return nil, fmt.Errorf("sinks[%d] (%s): %w", i, s.Name, err)
		}
		sinks = append(sinks, outbox.Sink{
			Name: s.Name, Bus: b, Retry: outbox.Retry{Attempts: s.Attempts, First: s.First, Cap: s.Cap},
		})
	}
	if len(sinks) == 0 {
		sinks = append(sinks, outbox.Sink{Name: logSink, Bus: logBus{d.log}})
	}
	if d.cfg.Demo {
		sinks = append(sinks, outbox.Sink{Name: demo.SinkName, Bus: demo.Sink{Logger: d.log}})
	}
	return sinks, nil
}

// sinksOf says which sinks get the events of a tenant: those that are for it, or for all.
func sinksOf(cfg *config.Config, sinks []outbox.Sink) func(tenant string) []string {
	return func(tenant string) []string {
		if cfg.Demo && demo.IsTenant(tenant) {
			return []string{demo.SinkName}
		}
		var names []string
		for i := range cfg.Sinks {
			if s := &cfg.Sinks[i]; len(s.Tenants) == 0 || slices.Contains(s.Tenants, tenant) {
				names = append(names, s.Name)
			}
		}
		if len(cfg.Sinks) == 0 {
			names = append(names, sinks[0].Name)
		}
		return names
	}
}

// openBus connects to a sink.
func (p *parts) openBus(ctx context.Context, d *daemon, s *config.Sink) (bus.EventBus, error) {
	switch s.Kind {
	case config.SinkWebhook:
		return webhook(s, d.clock)
	case config.SinkLog:
		return logBus{d.log}, nil
	case config.SinkNATS:
		return p.connect(ctx, d, s, func(ctx context.Context) (bus.EventBus, func(), error) {
			b, err := natsbus.New(ctx, natsbus.Config{URL: s.URL.Reveal(), Prefix: s.Prefix, Stream: s.Stream, Window: s.Window})
			if err != nil {
				return nil, nil, err
			}
			return b, b.Close, nil
		})
	case config.SinkRedis:
		cfg := redisbus.Config{
			Addresses: s.Addresses, Username: s.Username, Password: s.Password.Reveal(), Stream: s.Stream,
			MaxLen: int64(s.MaxLen), Window: s.Window,
		}
		if s.TLS {
			cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return p.connect(ctx, d, s, func(context.Context) (bus.EventBus, func(), error) {
			b, err := redisbus.New(cfg)
			if err != nil {
				return nil, nil, err
			}
			return b, b.Close, nil
		})
	default:
		return nil, fmt.Errorf("unknown kind %q", s.Kind)
	}
}

func webhook(s *config.Sink, clock base.Clock) (bus.EventBus, error) {
	cfg := webhookbus.Config{
		URL: s.URL.Reveal(), AllowHTTP: s.AllowHTTP, Mode: webhookbus.Mode(s.Mode), Source: s.Source, Header: header(s.Headers),
		Timeout: s.Timeout, Concurrency: s.Concurrency, AllowPrivate: s.AllowPrivate, Clock: clock,
	}
	for _, secret := range s.Secrets {
		cfg.Secrets = append(cfg.Secrets, secret.Reveal())
	}
	var err error
	if cfg.AllowedPrefixes, err = prefixes(s.AllowedNetwork); err != nil {
		return nil, err
	}
	return webhookbus.New(cfg)
}

func prefixes(networks []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func header(secrets map[string]config.Secret) http.Header {
	h := http.Header{}
	for name, value := range secrets {
		h.Set(name, value.Reveal())
	}
	return h
}

func reveal(secrets map[string]config.Secret) map[string]string {
	all := map[string]string{}
	for name, value := range secrets {
		all[name] = value.Reveal()
	}
	return all
}

// connect connects to a broker. One that is not there right now does not keep the server
// from starting: its envelopes wait in the outbox.
func (p *parts) connect(ctx context.Context, d *daemon, s *config.Sink, open opener) (bus.EventBus, error) {
	l := &lateBus{open: open}
	p.closers = append(p.closers, l.close)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := l.get(ctx)
	switch {
	case errors.Is(err, bus.ErrInvalid):
		return nil, err
	case err != nil:
		d.log.Warn("sink unreachable, events wait", "sink", s.Name, "error", err)
	}
	return l, nil
}

const connectTimeout = 5 * time.Second

type opener func(ctx context.Context) (bus.EventBus, func(), error)

// lateBus connects when it can.
type lateBus struct {
	open opener

	mu    sync.Mutex
	bus   bus.EventBus
	done  func()
	ended bool
}

var _ bus.EventBus = (*lateBus)(nil)

// Publish connects if that has not succeeded yet.
func (l *lateBus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	b, err := l.get(ctx)
	if err != nil {
		return err
	}
	return b.Publish(ctx, envelopes)
}

func (l *lateBus) get(ctx context.Context) (bus.EventBus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, errors.New("the sink is closed")
	}
	if l.bus != nil {
		return l.bus, nil
	}
	var err error
	l.bus, l.done, err = l.open(ctx)
	return l.bus, err
}

func (l *lateBus) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.done != nil {
		l.done()
	}
}

// logBus has events in the log; their payloads, which may be personal data, at level debug
// alone.
type logBus struct{ log *slog.Logger }

var _ bus.EventBus = logBus{}

// Publish accepts everything.
func (b logBus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	for i := range envelopes {
		e := &envelopes[i]
		b.log.InfoContext(ctx, "event", "type", e.Type, "tenant", e.TenantID, "id", e.ID, "correlation", e.CorrelationID, "bytes", len(e.Payload))
		b.log.DebugContext(ctx, "payload of event", "id", e.ID, "payload", string(e.Payload))
	}
	return nil
}

// commands returns what brings commands from NATS to the timers. While NATS is away, it
// tries again.
func (p *parts) commands(d *daemon) func(context.Context) error {
	c := &d.cfg.Timers.Commands
	cfg := natsbus.ConsumeConfig{
		URL: c.URL.Reveal(), Prefix: c.Prefix, Stream: c.Stream, Consumer: c.Consumer, Concurrency: c.Concurrency,
		Refused: func(ctx context.Context, r natsbus.Refused) error {
			return p.timers.Refuse(ctx, r.Tenant, r.Data, r.Position, r.Reason)
		},
	}
	return func(ctx context.Context) error {
		pause := backoff.Pause{Clock: d.clock, Min: time.Second, Max: time.Minute}
		for {
			begun := d.clock.Now()
			err := natsbus.Consume(ctx, cfg, p.timers.Handle)
			if ctx.Err() != nil || errors.Is(err, bus.ErrInvalid) {
				return err
			}
			d.log.Warn("NATS consumer failed, retrying", "error", err)
			if d.clock.Now().Sub(begun) > time.Minute {
				pause.Reset()
			}
			if pause.Sleep(ctx) != nil {
				return nil //nolint:nilerr // the end of ctx is how it stops
			}
		}
	}
}
