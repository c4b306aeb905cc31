package cli

import (
	"context"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

// serverBackend is a server, or the process that has a store open and answers at its socket.
type serverBackend struct{ client *remote.Client }

func (b serverBackend) engine() (*abide.Client, error) { return b.client.Engine(), nil }

func (b serverBackend) actions() (actionsAPI, error) { return b.client.Actions(), nil }

func (b serverBackend) timers() (timersAPI, error) { return b.client.Timers(), nil }

func (b serverBackend) operations() (operationsAPI, error) { return b.client.Operations(), nil }

func (b serverBackend) tokens() (tokensAPI, error) { return b.client.Tokens(), nil }

func (b serverBackend) sinks(ctx context.Context) ([]api.Sink, error) { return b.client.Sinks(ctx) }

func (b serverBackend) deliveries(ctx context.Context, f remote.DeliveryFilter, limit int, cursor string) (api.DeliveryList, error) {
	return b.client.Deliveries(ctx, f, limit, cursor)
}

func (b serverBackend) stats(ctx context.Context) (store.Stats, error) { return b.client.Stats(ctx) }

// work does nothing: the server does it.
func (b serverBackend) work(context.Context) (stop func() error, err error) {
	return func() error { return nil }, nil
}
