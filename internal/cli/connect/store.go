package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// StoreBackend is a store that this process has opened.
type StoreBackend struct {
	store  store.Store
	ending []func() error // what to do before the store is closed
}

// NewStoreBackend returns the backend of a store that is open in this process. It closes the store.
func NewStoreBackend(st store.Store) *StoreBackend { return &StoreBackend{store: st} }

// Close ends what was begun on the store, the latest first, and closes it.
func (b *StoreBackend) Close() error {
	var errs []error
	for _, end := range slices.Backward(b.ending) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, b.store.Close())...)
}

// silent is for services that only do what they are told: their errors are returned, and a
// person sees those.
var silent = slog.New(slog.DiscardHandler)

// Client returns a client of the instances.
func (b *StoreBackend) Client() *abide.Client { return abide.NewClient(b.store, nil) }

// Noting returns what keeps account of what is done to the store.
func (b *StoreBackend) Noting() (Audit, error) {
	guard, err := auth.New(auth.Config{Store: b.store, Logger: silent})
	return Audit{guard}, err
}

// Engine returns a client that writes audit entries.
func (b *StoreBackend) Engine() (*abide.Client, error) {
	n, err := b.Noting()
	return abide.ClientOver(notedTransport{b.Client().Transport().(operatorTransport), n}, nil), err
}

// Actions returns actions and schedules, with audit entries.
func (b *StoreBackend) Actions() (ActionsAPI, error) {
	n, err := b.Noting()
	if err != nil {
		return nil, err
	}
	s, err := action.New(action.Config{Store: b.store, Logger: silent})
	return notedActions{s, n}, err
}

// TimerService returns the timers.
func (b *StoreBackend) TimerService() (*timer.Service, error) {
	return timer.New(timer.Config{Store: b.store, Logger: silent})
}

// Timers returns timers, with audit entries.
func (b *StoreBackend) Timers() (TimersAPI, error) {
	n, err := b.Noting()
	if err != nil {
		return nil, err
	}
	s, err := b.TimerService()
	return notedTimers{s, n}, err
}

// OperationService returns the operations.
func (b *StoreBackend) OperationService() (*operation.Service, error) {
	return operation.New(operation.Config{Store: b.store, Client: b.Client(), Logger: silent})
}

// Operations returns bulk operations.
func (b *StoreBackend) Operations() (OperationsAPI, error) {
	n, err := b.Noting()
	if err != nil {
		return nil, err
	}
	s, err := b.OperationService()
	return storeOperations{s, n}, err
}

// Tokens returns tokens.
func (b *StoreBackend) Tokens() (TokensAPI, error) {
	guard, err := auth.New(auth.Config{Store: b.store, Logger: silent})
	return StoreTokens{guard}, err
}

// Stats returns what the store holds.
func (b *StoreBackend) Stats(ctx context.Context) (store.Stats, error) { return b.store.Stats(ctx) }

// Work has operations done by this process: there is no other that has the store, or if there
// is, they share the work.
func (b *StoreBackend) Work(ctx context.Context) (stop func() error, err error) {
	s, err := b.OperationService()
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

// Sinks returns the sinks of the outbox.
func (b *StoreBackend) Sinks(ctx context.Context) ([]api.Sink, error) {
	client, err := b.serve(ctx)
	if err != nil {
		return nil, err
	}
	return client.Sinks(ctx)
}

// Deliveries returns deliveries of a sink.
func (b *StoreBackend) Deliveries(ctx context.Context, f remote.DeliveryFilter) (api.DeliveryList, error) {
	client, err := b.serve(ctx)
	if err != nil {
		return api.DeliveryList{}, err
	}
	return client.Deliveries(ctx, f)
}

// serve returns a client of a server in this process, for what only a server puts together.
// It listens at a socket in a folder that only its owner can enter.
func (b *StoreBackend) serve(ctx context.Context) (*remote.Client, error) {
	timers, err := b.TimerService()
	if err != nil {
		return nil, err
	}
	handler, err := server.New(server.Config{Store: b.store, Timers: timers, Version: console.ReadVersion().Version, Logger: silent})
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
		if removing := os.Remove(dir); !errors.Is(removing, fs.ErrNotExist) {
			err = errors.Join(err, removing)
		}
		return err
	})
	return client, err
}

// Backup backs up the store.
func (b *StoreBackend) Backup(ctx context.Context, dest string) (api.Backup, error) {
	made := api.Backup{Path: dest, CreatedAt: base.System{}.Now().UTC()}
	n, err := b.Noting()
	if err != nil {
		return made, err
	}
	s, ok := b.store.(store.Backuper)
	if !ok {
		return made, console.Usage("only the embedded store is backed up into a folder, others with the tools of their databases: see docs/backup.md")
	}
	err = s.Backup(ctx, dest)
	if errors.Is(err, store.ErrInvalid) {
		err = console.AsUsage(err)
	}
	return made, StoreTokens(n).Note(ctx, "create-backup", dest, err)
}
