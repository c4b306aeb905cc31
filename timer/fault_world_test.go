package timer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// faultWorld is a store, two sinks, and processes that use them, in virtual time or not.
type faultWorld struct {
	*rig.Rig
	ledger
	sinks []*faultSink
}

func newFaultWorld(t *testing.T) *faultWorld { return newFaultWorldOn(t, teststore.New(t)) }

func newFaultWorldOn(t *testing.T, s store.Store) *faultWorld {
	return &faultWorld{Rig: rig.On(t, s), sinks: []*faultSink{newFaultSink("first"), newFaultSink("second")}}
}

// process is a service that runs as if it were the only one in its process.
type process struct {
	*timer.Service
	running *rig.Process
}

// lease is how long a process of the world has what it claims.
const lease = 2 * time.Second

// process starts one on the world's store, or on a wrapper of it.
func (w *faultWorld) process(s store.Store, change ...func(*timer.Config)) *process {
	w.T.Helper()
	service := w.service(s, change...)
	return &process{service, rig.Run(w.T, service)}
}

// service makes a service that fires nothing.
func (w *faultWorld) service(s store.Store, change ...func(*timer.Config)) *timer.Service {
	w.T.Helper()
	cfg := timer.Config{Store: s, LeaseDuration: lease, Retention: -1, Logger: rig.Quiet}
	for _, sink := range w.sinks {
		cfg.Sinks = append(cfg.Sinks, outbox.Sink{
			Name: sink.name, Bus: &sink.bus,
			Retry: outbox.Retry{Attempts: 1000, First: 50 * time.Millisecond, Cap: time.Second},
		})
	}
	cfg.SinksOf = w.sinksOf
	for _, f := range change {
		f(&cfg)
	}
	service, err := timer.New(cfg)
	check.OK(w.T, err)
	return service
}

// sinksOf returns the sinks of a tenant: all of them, or the first alone.
func (w *faultWorld) sinksOf(tenant string) []string {
	var names []string
	for _, sink := range w.sinks {
		if sink.takes(tenant) {
			names = append(names, sink.name)
		}
	}
	return names
}

// takes reports whether the envelopes of a tenant go to the sink.
func (s *faultSink) takes(tenant string) bool {
	return s.name == "first" || tenant != "other" && tenant != "tenant1"
}

// faultSink is where envelopes go: it stands for what others know of them.
type faultSink struct {
	name string
	bus  bus.Local

	mu   sync.Mutex
	seen int // how often it was told of an envelope
	got  []arrival

	// meddle, if not nil, is asked about the nth envelope that arrives, before it is
	// accepted and after. An error is what the publisher gets to know.
	meddle func(n int, accepted bool) error
}

// arrival is an envelope that a sink has accepted.
type arrival struct {
	bus.Envelope
	at time.Time

	event timer.DueTimeReached
	call  int // which Schedule it comes from
}

func newFaultSink(name string) *faultSink {
	s := &faultSink{name: name}
	s.bus.Subscribe(bus.Filter{}, s.accept)
	return s
}

func (s *faultSink) accept(_ context.Context, e bus.Envelope) error {
	s.mu.Lock()
	s.seen++
	n, meddle := s.seen, s.meddle
	s.mu.Unlock()
	if meddle != nil {
		if err := meddle(n, false); err != nil {
			return err
		}
	}
	if err := s.note(e, time.Now()); err != nil {
		return err
	}
	if meddle != nil {
		return meddle(n, true)
	}
	return nil
}

// note notes that an envelope has arrived.
func (s *faultSink) note(e bus.Envelope, at time.Time) error {
	a := arrival{Envelope: e, at: at}
	if err := json.Unmarshal(e.Payload, &a.event); err != nil {
		return err
	}
	if err := json.Unmarshal(a.event.Payload, &a.call); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, a)
	return nil
}

// plan replaces what meddles.
func (s *faultSink) plan(meddle func(n int, accepted bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meddle = meddle
}

func (s *faultSink) arrivals() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.got...)
}

// name is how the ledger names a timer.
func name(tenant, key string) string { return fmt.Sprintf("%s/%s", tenant, key) }
