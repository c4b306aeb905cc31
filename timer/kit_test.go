package timer_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// rig is a service on a store in memory with one sink, in a bubble of virtual time.
type rig struct {
	*timer.Service
	t     *testing.T
	store store.Store
	sink  *recorder
	begun time.Time
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func newRig(t *testing.T, configure ...func(*timer.Config)) *rig {
	t.Helper()
	s := teststore.New(t)
	t.Cleanup(func() { _ = s.Close() })
	return newRigOn(t, s, configure...)
}

func newRigOn(t *testing.T, s store.Store, configure ...func(*timer.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: s, sink: &recorder{}, begun: time.Now()}
	cfg := timer.Config{
		Store: s, Sinks: []outbox.Sink{{Name: "sink", Bus: r.sink, Retry: outbox.Retry{Attempts: 3}}},
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range configure {
		f(&cfg)
	}
	var err error
	if r.Service, err = timer.New(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// run has the service fire until the test ends, or stop is called.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// pass lets time pass, and what happens then come to its end.
func (*rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// at returns a time of the rig.
func (r *rig) at(d time.Duration) time.Time { return r.begun.Add(d).UTC() }

func (r *rig) schedule(req timer.Request) timer.Timer {
	r.t.Helper()
	if req.Tenant == "" {
		req.Tenant = "acme"
	}
	got, err := r.Schedule(r.t.Context(), req)
	check.OK(r.t, err)
	return got
}

func (r *rig) cancel(key string) timer.Timer {
	r.t.Helper()
	got, err := r.Cancel(r.t.Context(), "acme", key)
	check.OK(r.t, err)
	return got
}

// get returns a timer of acme.
func (r *rig) get(key string) timer.Timer {
	r.t.Helper()
	got, err := r.Get(r.t.Context(), "acme", key)
	check.OK(r.t, err)
	return got
}

// quarantine returns what is in quarantine.
func (r *rig) quarantine() []store.Record {
	r.t.Helper()
	page, err := r.store.List(r.t.Context(), store.Query{Kind: store.KindQuarantine})
	check.OK(r.t, err)
	return page.Records
}

// redrive puts back what is in quarantine, which is one message.
func (r *rig) redrive() {
	r.t.Helper()
	records := r.quarantine()
	if len(records) != 1 {
		r.t.Fatalf("%d messages are in quarantine, want 1", len(records))
	}
	tx, err := store.Redrive(records[0])
	check.OK(r.t, err)
	check.OK(r.t, r.store.Commit(r.t.Context(), tx))
}

// recorder is a sink that keeps what it accepts.
type recorder struct {
	mu     sync.Mutex
	got    []bus.Envelope
	refuse func(bus.Envelope) error // nil means never
}

var _ bus.EventBus = (*recorder)(nil)

func (r *recorder) Publish(_ context.Context, envelopes []bus.Envelope) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcomes := make([]error, len(envelopes))
	for i, e := range envelopes {
		if r.refuse != nil {
			outcomes[i] = r.refuse(e)
		}
		if outcomes[i] == nil {
			r.got = append(r.got, e)
		}
	}
	return bus.Join(outcomes)
}

func (r *recorder) set(refuse func(bus.Envelope) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// wantEqual checks one thing.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantTime checks a time.
func wantTime(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantError checks that an error matches, is one line, and says all of these.
func wantError(t *testing.T, err, target error, says ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want one that matches %v", err, target)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "timer: ") {
		t.Errorf("error %q is not one line of this package", err)
	}
}
