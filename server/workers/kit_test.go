package workers_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"

	_ "github.com/abidehq/abide/remote"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patient is how long something may take that should not take long.
const patient = 60 * time.Second

// host is a server under test.
type host struct {
	t       *testing.T
	store   store.Store
	engine  *abide.Engine
	guard   *auth.Guard
	service *workers.Service
	addr    string
	url     string
	stop    func()
}

// startHost starts a server on a store.
func startHost(t *testing.T, st store.Store, change func(*workers.Config)) *host {
	t.Helper()
	h := &host{t: t, store: st}
	var err error
	h.engine, err = abide.New(st, abide.Config{Logger: quiet(), Unlisted: true})
	check.OK(t, err)
	cfg := workers.Config{Engine: h.engine, Logger: quiet(), Version: "v0-test"}
	if change != nil {
		change(&cfg)
	}
	h.guard = cfg.Auth
	api, err := server.New(server.Config{Store: st, Engine: h.engine, Auth: cfg.Auth, Logger: quiet()})
	check.OK(t, err)
	cfg.API, cfg.Problem = api, api.Problem
	h.service = workers.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	h.addr = l.Addr().String()
	h.url = "abide://" + h.addr
	served := make(chan error, 1)
	go func() { served <- h.service.Serve(l) }()
	h.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		h.service.Stop(ctx)
		check.OK(t, <-served)
		check.OK(t, h.engine.Close())
	})
	t.Cleanup(h.stop)
	return h
}

// newHost starts a server on a store of its own.
func newHost(t *testing.T) *host {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	return startHost(t, st, nil)
}

// work starts a worker that runs definitions.
func (h *host) work(change func(*abide.Config), register ...abide.Definition) *abide.Engine {
	h.t.Helper()
	cfg := abide.Config{Store: h.url, Register: register, Logger: quiet(), DrainTimeout: patient}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patient)
	defer cancel()
	e, err := abide.Open(ctx, cfg)
	check.OK(h.t, err)
	h.t.Cleanup(func() { _ = e.Close() })
	return e
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// soon is a context for what should not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	return ctx
}

// receive returns what comes from a channel soon.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patient):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// waiting returns an activity that tells its input when it begins, and returns it when it is released.
func waiting(begun chan<- int, release <-chan struct{}) *abide.Activity[int, int] {
	return abide.NewActivity("act", func(ctx context.Context, n int) (int, error) {
		begun <- n
		select {
		case <-release:
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}
