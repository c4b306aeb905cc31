package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/operation"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// storeBackend is a store that this process has opened.
type storeBackend struct {
	store  store.Store
	ending []func() error // what to do before the store is closed
}

func newStoreBackend(st store.Store) *storeBackend { return &storeBackend{store: st} }

// close ends what was begun on the store, the latest first, and closes it.
func (b *storeBackend) close() error {
	var errs []error
	for _, end := range slices.Backward(b.ending) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, b.store.Close())...)
}

// silent is for services that only do what they are told: their errors are returned, and a
// person sees those.
var silent = slog.New(slog.DiscardHandler)

func (b *storeBackend) client() *abide.Client { return abide.NewClient(b.store, nil) }

// noting returns what keeps account of what is done to the store.
func (b *storeBackend) noting() (noting, error) {
	guard, err := auth.New(auth.Config{Store: b.store, Logger: silent})
	return noting{guard}, err
}

func (b *storeBackend) engine() (*abide.Client, error) {
	n, err := b.noting()
	return abide.ClientOver(notedTransport{b.client().Transport().(operatorTransport), n}, nil), err
}

func (b *storeBackend) actions() (actionsAPI, error) {
	n, err := b.noting()
	if err != nil {
		return nil, err
	}
	s, err := action.New(action.Config{Store: b.store, Logger: silent})
	return notedActions{s, n}, err
}

func (b *storeBackend) timerService() (*timer.Service, error) {
	return timer.New(timer.Config{Store: b.store, Logger: silent})
}

func (b *storeBackend) timers() (timersAPI, error) {
	n, err := b.noting()
	if err != nil {
		return nil, err
	}
	s, err := b.timerService()
	return notedTimers{s, n}, err
}

func (b *storeBackend) operationService() (*operation.Service, error) {
	return operation.New(operation.Config{Store: b.store, Client: b.client(), Logger: silent})
}

func (b *storeBackend) operations() (operationsAPI, error) {
	n, err := b.noting()
	if err != nil {
		return nil, err
	}
	s, err := b.operationService()
	return storeOperations{s, n}, err
}

func (b *storeBackend) tokens() (tokensAPI, error) {
	guard, err := auth.New(auth.Config{Store: b.store, Logger: silent})
	return storeTokens{guard}, err
}

func (b *storeBackend) stats(ctx context.Context) (store.Stats, error) { return b.store.Stats(ctx) }

// work has operations done by this process: there is no other that has the store, or if there
// is, they share the work.
func (b *storeBackend) work(ctx context.Context) (stop func() error, err error) {
	s, err := b.operationService()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

func (b *storeBackend) sinks(ctx context.Context) ([]api.Sink, error) {
	client, err := b.serve(ctx)
	if err != nil {
		return nil, err
	}
	return client.Sinks(ctx)
}

func (b *storeBackend) deliveries(ctx context.Context, f remote.DeliveryFilter, limit int, cursor string) (api.DeliveryList, error) {
	client, err := b.serve(ctx)
	if err != nil {
		return api.DeliveryList{}, err
	}
	return client.Deliveries(ctx, f, limit, cursor)
}

// serve returns a client of a server in this process, for what only a server puts together.
// It listens at a socket in a folder that nobody else can enter.
func (b *storeBackend) serve(ctx context.Context) (*remote.Client, error) {
	timers, err := b.timerService()
	if err != nil {
		return nil, err
	}
	handler, err := server.New(server.Config{Store: b.store, Timers: timers, Version: readVersion().Version, Logger: silent})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "abide-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a socket: %w", err)
	}
	path := filepath.Join(dir, "sock")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at a socket: %w", err), os.Remove(dir))
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(listener) // it ends with Close
	}()
	client, err := remote.New((&url.URL{Scheme: "unix", Path: path}).String())
	b.ending = append(b.ending, func() error {
		err := s.Close()
		<-ended
		return errors.Join(err, ignoreMissing(os.Remove(dir)))
	})
	return client, err
}
