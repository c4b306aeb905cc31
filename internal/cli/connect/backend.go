package connect

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

// Backend is what the commands work on: a server, or a store that is open in this process.
// Each noun has an interface of its own, which both of them have.
type Backend interface {
	// Engine returns the client of instances.
	Engine() (*abide.Client, error)
	// Actions returns the client of actions and schedules.
	Actions() (ActionsAPI, error)
	// Timers returns the client of tenant timers.
	Timers() (TimersAPI, error)
	// Operations returns the client of operations.
	Operations() (OperationsAPI, error)
	// Tokens returns the client of tokens, sessions and the audit log.
	Tokens() (TokensAPI, error)
	// Sinks lists the sinks.
	Sinks(ctx context.Context) ([]api.Sink, error)
	// Deliveries lists a page of deliveries.
	Deliveries(ctx context.Context, f remote.DeliveryFilter) (api.DeliveryList, error)
	// Stats counts what the store holds.
	Stats(ctx context.Context) (store.Stats, error)

	// Backup backs up the embedded store into a folder on the machine that has it open.
	Backup(ctx context.Context, dest string) (api.Backup, error)

	// Work runs operations until stop is called, unless a server does.
	Work(ctx context.Context) (stop func() error, err error)
}

var (
	_ Backend = serverBackend{}
	_ Backend = (*StoreBackend)(nil)
)

// ActionsAPI is what the commands about actions and schedules need.
type ActionsAPI interface {
	// Add adds an action, and reports whether it existed.
	Add(ctx context.Context, r action.Request) (action.Action, bool, error)
	// Get returns an action.
	Get(ctx context.Context, tenant, id string) (action.Action, error)
	// Body returns the body of the webhook that triggered an action.
	Body(ctx context.Context, tenant, id string) ([]byte, error)
	// List lists a page of actions.
	List(ctx context.Context, f action.Filter) (action.Page, error)
	// Cancel cancels an action, with a reason.
	Cancel(ctx context.Context, tenant, id, why string) (action.Action, error)
	// Retry runs an action again that has failed.
	Retry(ctx context.Context, tenant, id string) (action.Action, error)

	// AddSchedule adds a schedule.
	AddSchedule(ctx context.Context, p action.Plan) (action.Schedule, error)
	// GetSchedule returns a schedule.
	GetSchedule(ctx context.Context, tenant, id string) (action.Schedule, error)
	// ListSchedules lists a page of schedules.
	ListSchedules(ctx context.Context, f action.ScheduleFilter) (action.SchedulePage, error)
	// UpdateSchedule replaces the plan of a schedule that has this version.
	UpdateSchedule(ctx context.Context, p action.Plan, version int64) (action.Schedule, error)
	// RemoveSchedule removes a schedule.
	RemoveSchedule(ctx context.Context, tenant, id string) error
	// Pause pauses a schedule, with a reason.
	Pause(ctx context.Context, tenant, id, why string) (action.Schedule, error)
	// Resume resumes a schedule.
	Resume(ctx context.Context, tenant, id string) (action.Schedule, error)
	// Trigger adds the action of a schedule now.
	Trigger(ctx context.Context, tenant, id string) (action.Action, error)
	// Backfill adds the actions that a schedule would have made in a period.
	Backfill(ctx context.Context, tenant, id string, from, to time.Time) ([]action.Action, error)
}

// TimersAPI is what the commands about timers and deliveries need.
type TimersAPI interface {
	// Schedule schedules a timer.
	Schedule(ctx context.Context, r timer.Request) (timer.Timer, error)
	// ScheduleAll schedules timers in one commit.
	ScheduleAll(ctx context.Context, requests []timer.Request) ([]timer.Timer, error)
	// Get returns a timer.
	Get(ctx context.Context, tenant, key string) (timer.Timer, error)
	// List lists a page of timers.
	List(ctx context.Context, f timer.Filter) (timer.Page, error)
	// Snooze moves a timer to a time from now.
	Snooze(ctx context.Context, tenant, key string, d time.Duration) (timer.Timer, error)
	// Cancel cancels a timer.
	Cancel(ctx context.Context, tenant, key string) (timer.Timer, error)
	// CancelAll cancels the timers that match, and returns how many.
	CancelAll(ctx context.Context, f timer.Filter) (int, error)
	// Redeliver publishes a timer to a sink again.
	Redeliver(ctx context.Context, tenant, key, sink string) (timer.Timer, error)
}

// OperationsAPI is what the commands about operations need.
type OperationsAPI interface {
	// Start starts an operation.
	Start(ctx context.Context, n api.NewOperation) (api.Operation, error)
	// Get returns an operation.
	Get(ctx context.Context, tenant, id string) (api.Operation, error)
	// List lists a page of operations.
	List(ctx context.Context, f remote.OperationFilter) (api.OperationList, error)
	// Cancel cancels an operation.
	Cancel(ctx context.Context, tenant, id string) (api.Operation, error)
}

// TokensAPI is what the commands about tokens and the audit log need.
type TokensAPI interface {
	// Create creates a token, and returns its secret.
	Create(ctx context.Context, n api.NewToken) (api.CreatedToken, error)
	// List lists a page of tokens.
	List(ctx context.Context, f remote.TokenFilter) (api.TokenList, error)
	// Revoke revokes a token.
	Revoke(ctx context.Context, id string) error
	// Audit lists a page of the audit log.
	Audit(ctx context.Context, q remote.AuditQuery) (api.AuditList, error)
	// Sessions lists a page of sessions.
	Sessions(ctx context.Context, f remote.SessionFilter) (api.SessionList, error)
	// RevokeSession ends a session.
	RevokeSession(ctx context.Context, id string) error
	// RevokeSessions ends the sessions of a subject, and returns how many.
	RevokeSessions(ctx context.Context, subject string) (int, error)
}

var (
	_ ActionsAPI    = (*action.Service)(nil)
	_ ActionsAPI    = (*remote.Actions)(nil)
	_ TimersAPI     = (*timer.Service)(nil)
	_ TimersAPI     = (*remote.Timers)(nil)
	_ OperationsAPI = storeOperations{}
	_ OperationsAPI = (*remote.Operations)(nil)
	_ TokensAPI     = StoreTokens{}
	_ TokensAPI     = (*remote.Tokens)(nil)
)
