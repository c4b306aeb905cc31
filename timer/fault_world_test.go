package timer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// faultWorld is a store, two sinks, and processes that use them. With a store in memory it
// is made inside a synctest bubble, and its time is virtual.
type faultWorld struct {
	t     *testing.T
	store store.Store
	sinks []*faultSink
	begun time.Time
	account
}

func newFaultWorld(t *testing.T) *faultWorld {
	s := teststore.New(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return newFaultWorldOn(t, s)
}

func newFaultWorldOn(t *testing.T, s store.Store) *faultWorld {
	return &faultWorld{
		t: t, store: s, begun: time.Now().Truncate(time.Millisecond),
		sinks: []*faultSink{newFaultSink("first"), newFaultSink("second")},
	}
}

// at returns a time of the world.
func (w *faultWorld) at(d time.Duration) time.Time { return w.begun.Add(d) }

// pass lets time pass.
func (*faultWorld) pass(d time.Duration) { <-time.After(d) }

// passUntil lets time pass until it is d after the world began.
func (w *faultWorld) passUntil(d time.Duration) {
	if left := d - time.Since(w.begun); left > 0 {
		w.pass(left)
	}
}

// process is a service that runs as if it were the only one in its process.
type process struct {
	*timer.Service
	cancel context.CancelFunc
	done   chan struct{}
}

// lease is how long a process of the world has what it claims.
const lease = 2 * time.Second

// process starts one on the world's store, or on a wrapper of it.
func (w *faultWorld) process(s store.Store, change ...func(*timer.Config)) *process {
	w.t.Helper()
	service := w.service(s, change...)
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Service: service, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := service.Run(ctx); err != nil {
			w.t.Errorf("a service has ended: %v", err)
		}
	}()
	w.t.Cleanup(p.stop)
	return p
}

// service makes a service that fires nothing.
func (w *faultWorld) service(s store.Store, change ...func(*timer.Config)) *timer.Service {
	w.t.Helper()
	cfg := timer.Config{Store: s, LeaseDuration: lease, Retention: -1, Logger: slog.New(slog.DiscardHandler)}
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
	check.OK(w.t, err)
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

// stop ends a process and returns when it has ended.
func (p *process) stop() {
	p.cancel()
	<-p.done
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

// hooked is a store with a hook that is called before and after each call. Other than the
// plan of a faulty store, a hook may take its time. What is sent to the store arrives there
// in the end, also if who has sent it has given up.
type hooked struct {
	store.Store
	hook func(method string, after bool)
}

var _ store.Store = (*hooked)(nil)

func (h *hooked) around(method string) func() {
	h.hook(method, false)
	return func() { h.hook(method, true) }
}

func (h *hooked) Commit(ctx context.Context, tx *store.Tx) error {
	defer h.around("Commit")()
	return h.Store.Commit(context.WithoutCancel(ctx), tx)
}

func (h *hooked) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	defer h.around("Claim")()
	return h.Store.Claim(ctx, req)
}

func (h *hooked) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	defer h.around("Renew")()
	return h.Store.Renew(context.WithoutCancel(ctx), d, leases)
}

func (h *hooked) Release(ctx context.Context, r store.Release) error {
	defer h.around("Release")()
	return h.Store.Release(context.WithoutCancel(ctx), r)
}

func (h *hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	defer h.around("Get")()
	return h.Store.Get(ctx, key)
}

func (h *hooked) List(ctx context.Context, q store.Query) (store.Page, error) {
	defer h.around("List")()
	return h.Store.List(ctx, q)
}

func (h *hooked) Stats(ctx context.Context) (store.Stats, error) {
	defer h.around("Stats")()
	return h.Store.Stats(ctx)
}

// name is how the account names a timer.
func name(tenant, key string) string { return fmt.Sprintf("%s/%s", tenant, key) }
