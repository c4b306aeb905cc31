package cli

import (
	"context"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// backend is what the commands work on: a server, or a store that is open in this process.
// Each noun has an interface of its own, which both of them have.
type backend interface {
	engine() (*abide.Client, error)
	actions() (actionsAPI, error)
	timers() (timersAPI, error)
	operations() (operationsAPI, error)
	tokens() (tokensAPI, error)
	sinks(ctx context.Context) ([]api.Sink, error)
	deliveries(ctx context.Context, f remote.DeliveryFilter, limit int, cursor string) (api.DeliveryList, error)
	stats(ctx context.Context) (store.Stats, error)

	// backup backs up the embedded store into a folder on the machine that has it open.
	backup(ctx context.Context, dest string) (api.Backup, error)

	// work has operations done, until stop is called, if nobody else does them.
	work(ctx context.Context) (stop func() error, err error)
}

var (
	_ backend = serverBackend{}
	_ backend = (*storeBackend)(nil)
)

// actionsAPI is what the commands about actions and schedules need.
type actionsAPI interface {
	Add(ctx context.Context, r action.Request) (action.Action, bool, error)
	Get(ctx context.Context, tenant, id string) (action.Action, error)
	Body(ctx context.Context, tenant, id string) ([]byte, error)
	List(ctx context.Context, f action.Filter, limit int, cursor string) (action.Page, error)
	Cancel(ctx context.Context, tenant, id, why string) (action.Action, error)
	Retry(ctx context.Context, tenant, id string) (action.Action, error)

	AddSchedule(ctx context.Context, p action.Plan) (action.Schedule, error)
	GetSchedule(ctx context.Context, tenant, id string) (action.Schedule, error)
	ListSchedules(ctx context.Context, tenant string, limit int, cursor string) (action.SchedulePage, error)
	UpdateSchedule(ctx context.Context, p action.Plan, version int64) (action.Schedule, error)
	RemoveSchedule(ctx context.Context, tenant, id string) error
	Pause(ctx context.Context, tenant, id, why string) (action.Schedule, error)
	Resume(ctx context.Context, tenant, id string) (action.Schedule, error)
	Trigger(ctx context.Context, tenant, id string) (action.Action, error)
	Backfill(ctx context.Context, tenant, id string, from, to time.Time) ([]action.Action, error)
}

// timersAPI is what the commands about timers and deliveries need.
type timersAPI interface {
	Schedule(ctx context.Context, r timer.Request) (timer.Timer, error)
	ScheduleAll(ctx context.Context, requests []timer.Request) ([]timer.Timer, error)
	Get(ctx context.Context, tenant, key string) (timer.Timer, error)
	List(ctx context.Context, f timer.Filter, limit int, cursor string) (timer.Page, error)
	Snooze(ctx context.Context, tenant, key string, d time.Duration) (timer.Timer, error)
	Cancel(ctx context.Context, tenant, key string) (timer.Timer, error)
	CancelAll(ctx context.Context, f timer.Filter) (int, error)
	Redeliver(ctx context.Context, tenant, key, sink string) (timer.Timer, error)
}

// operationsAPI is what the commands about operations need.
type operationsAPI interface {
	Start(ctx context.Context, n api.NewOperation) (api.Operation, error)
	Get(ctx context.Context, tenant, id string) (api.Operation, error)
	List(ctx context.Context, f remote.OperationFilter, limit int, cursor string) (api.OperationList, error)
	Cancel(ctx context.Context, tenant, id string) (api.Operation, error)
}

// tokensAPI is what the commands about tokens and the audit log need.
type tokensAPI interface {
	Create(ctx context.Context, n api.NewToken) (api.CreatedToken, error)
	List(ctx context.Context, limit int, cursor string) (api.TokenList, error)
	Revoke(ctx context.Context, id string) error
	Audit(ctx context.Context, q remote.AuditQuery) (api.AuditList, error)
	Sessions(ctx context.Context, subject string, limit int, cursor string) (api.SessionList, error)
	RevokeSession(ctx context.Context, id string) error
	RevokeSessions(ctx context.Context, subject string) (int, error)
}

var (
	_ actionsAPI    = (*action.Service)(nil)
	_ actionsAPI    = (*remote.Actions)(nil)
	_ timersAPI     = (*timer.Service)(nil)
	_ timersAPI     = (*remote.Timers)(nil)
	_ operationsAPI = storeOperations{}
	_ operationsAPI = (*remote.Operations)(nil)
	_ tokensAPI     = storeTokens{}
	_ tokensAPI     = (*remote.Tokens)(nil)
)
