package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/store"
)

// actionsAPI is what the commands about actions and schedules need: of a store that is open
// in this process, or of the process that has it open.
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

var (
	_ actionsAPI = (*action.Service)(nil)
	_ actionsAPI = (*remote.Actions)(nil)
)

// db says where actions are, and whose, and how to print them.
type db struct {
	path   string
	tenant string
	out    output
}

// addTo gives a command the flags.
func (d *db) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.path, "db", "", "folder of the store, or its URL; $ABIDE_STORE if not given, or ./"+defaultDB)
	f.StringVar(&d.tenant, "tenant", "default", "whose it is")
	d.out.addTo(cmd)
}

// use calls f with the actions of the store. A store that is not there is made only if f is
// to put something into it.
func (d *db) use(cmd *cobra.Command, makes bool, f func(ctx context.Context, actions actionsAPI) error) (err error) {
	if err := d.out.check(cmd); err != nil {
		return err
	}
	p, err := findStore(d.path)
	if err != nil {
		return err
	}
	if !makes && !p.exists() {
		return fmt.Errorf("there is no store in %s: %w", p.shown, store.ErrNotFound)
	}
	ctx := cmd.Context()
	reached := false
	st, err := p.open(ctx, func() bool {
		reached = p.socketAnswers(ctx)
		return reached
	})
	switch {
	case reached:
		return d.useRemote(ctx, p, f)
	case errors.Is(err, store.ErrInUse) && p.dir != "":
		return fmt.Errorf("another process has the store in %s open, and does not answer at %s: %w", p.shown, socketBeside(p.dir), remote.ErrUnreachable)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	actions, err := action.New(action.Config{Store: st, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return f(ctx, actions)
}

// useRemote calls f with the actions of the process that has the store open.
func (d *db) useRemote(ctx context.Context, p place, f func(ctx context.Context, actions actionsAPI) error) error {
	path, err := findSocket(p.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", err, remote.ErrUnreachable)
	}
	client, err := remote.New((&url.URL{Scheme: "unix", Path: path}).String())
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client.Actions())
}

// socketAnswers reports whether the process that has the store open can be talked to.
func (p place) socketAnswers(ctx context.Context) bool {
	if p.dir == "" {
		return false
	}
	path, err := findSocket(p.dir)
	return err == nil && answers(ctx, path)
}
