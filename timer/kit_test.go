package timer_test

import (
	"testing"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

func TestMain(m *testing.M) { teststore.Main(m) }

// fixture is a service with one sink.
type fixture struct {
	*rig.Rig
	*timer.Service
	sink *rig.Recorder
}

func newFixture(t *testing.T, configure ...func(*timer.Config)) *fixture {
	t.Helper()
	return newFixtureOn(t, teststore.New(t), configure...)
}

func newFixtureOn(t *testing.T, s store.Store, configure ...func(*timer.Config)) *fixture {
	t.Helper()
	r := &fixture{Rig: rig.On(t, s), sink: &rig.Recorder{}}
	cfg := timer.Config{
		Store: s, Sinks: []outbox.Sink{{Name: "sink", Bus: r.sink, Retry: outbox.Retry{Attempts: 3}}}, Logger: rig.Quiet,
	}
	for _, f := range configure {
		f(&cfg)
	}
	var err error
	r.Service, err = timer.New(cfg)
	check.OK(t, err)
	return r
}

// run has the service fire until the test ends, or stop is called.
func (r *fixture) run() (stop func()) { return rig.Run(r.T, r.Service).Stop }

func (r *fixture) schedule(req timer.Request) timer.Timer {
	r.T.Helper()
	if req.Tenant == "" {
		req.Tenant = "acme"
	}
	got, err := r.Schedule(r.T.Context(), req)
	check.OK(r.T, err)
	return got
}

func (r *fixture) cancel(key string) timer.Timer {
	r.T.Helper()
	got, err := r.Cancel(r.T.Context(), "acme", key)
	check.OK(r.T, err)
	return got
}

// get returns a timer of acme.
func (r *fixture) get(key string) timer.Timer {
	r.T.Helper()
	got, err := r.Get(r.T.Context(), "acme", key)
	check.OK(r.T, err)
	return got
}
