package connect

import (
	"context"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

// serverBackend is a server, or the process that has a store open and answers at its socket.
type serverBackend struct{ client *remote.Client }

func (b serverBackend) Engine() (*abide.Client, error) { return b.client.Engine(), nil }

func (b serverBackend) Actions() (ActionsAPI, error) { return b.client.Actions(), nil }

func (b serverBackend) Timers() (TimersAPI, error) { return b.client.Timers(), nil }

func (b serverBackend) Operations() (OperationsAPI, error) { return b.client.Operations(), nil }

func (b serverBackend) Tokens() (TokensAPI, error) { return b.client.Tokens(), nil }

func (b serverBackend) Sinks(ctx context.Context) ([]api.Sink, error) { return b.client.Sinks(ctx) }

func (b serverBackend) Deliveries(ctx context.Context, f remote.DeliveryFilter) (api.DeliveryList, error) {
	return b.client.Deliveries(ctx, f)
}

func (b serverBackend) Stats(ctx context.Context) (store.Stats, error) { return b.client.Stats(ctx) }

// Work does nothing: the server does it.
func (b serverBackend) Work(context.Context) (stop func() error, err error) {
	return func() error { return nil }, nil
}

func (b serverBackend) Backup(ctx context.Context, dest string) (api.Backup, error) {
	return b.client.Backup(ctx, dest)
}
