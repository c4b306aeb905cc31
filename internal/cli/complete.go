package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/instances"
	"github.com/abidehq/abide/internal/cli/sinks"
	"github.com/abidehq/abide/internal/cli/timers"
	"github.com/abidehq/abide/internal/cli/workers"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/timer"
)

const (
	// completeWait is how long a shell waits for what could be completed.
	completeWait = 2 * time.Second

	// completeLimit is how much is looked at for it.
	completeLimit = 100
)

// completer returns what an argument or a flag can be, in the store or at the server.
type completer func(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error)

// completeArgs has what the arguments of commands can be, by the commands' paths.
var completeArgs = map[string]completer{
	"actions show": actionIDs, "actions cancel": actionIDs, "actions retry": actionIDs,
	"deliveries redeliver": timerKeys,
	"entities show":        entityIDs, "entities signal": entityIDs,
	"instances cancel": instanceIDs, "instances delete": instanceIDs, "instances fork": instanceIDs,
	"instances history": instanceIDs, "instances move-timer": instanceIDs, "instances raise": instanceIDs,
	"instances restart": instanceIDs, "instances result": instanceIDs, "instances resume": instanceIDs,
	"instances rewind": instanceIDs,
	"instances show":   instanceIDs, "instances suspend": instanceIDs, "instances terminate": instanceIDs,
	"instances wait": instanceIDs, "instances start": orchestrationNames,
	"limits pause": limitNames, "limits resume": limitNames, "limits set": limitNames,
	"limits show": limitNames, "limits unset": limitNames,
	"operations cancel": operationIDs, "operations show": operationIDs, "operations watch": operationIDs,
	"quarantine delete": quarantineIDs, "quarantine redrive": quarantineIDs, "quarantine show": quarantineIDs,
	"schedules backfill": scheduleIDs, "schedules pause": scheduleIDs, "schedules preview": scheduleIDs,
	"schedules remove": scheduleIDs, "schedules resume": scheduleIDs, "schedules show": scheduleIDs,
	"schedules trigger": scheduleIDs, "schedules update": scheduleIDs,
	"timers cancel": timerKeys, "timers move": timerKeys, "timers schedule": timerKeys,
	"timers show": timerKeys, "timers snooze": timerKeys,
	"tokens revoke": tokenIDs,
}

// completeMany are the commands that take more than one of them.
var completeMany = []string{"cancel", "delete", "redeliver", "redrive", "restart", "resume", "revoke", "rewind", "suspend", "terminate", "wait"}

// completeFlags has what flags can be, by their names and the nouns of the commands; a flag
// without a noun is the same everywhere.
var completeFlags = map[string][]string{
	"output":            {"table", "json"},
	"instances status":  strings.Split(console.ListOf(instances.InstanceStatuses), ", "),
	"actions status":    {"pending", "running", "completed", "failed", "cancelled", "skipped"},
	"timers status":     strings.Split(console.ListOf(timers.TimerStatuses), ", "),
	"operations status": strings.Split(console.ListOf(operation.Statuses), ", "),
	"operations kind":   strings.Split(console.ListOf(operation.Kinds), ", "),
	"deliveries state":  sinks.DeliveryStates,
	"tokens role":       strings.Split(console.ListOf(auth.Roles), ", "),
	"on-exists":         {api.OnExistsExisting, api.OnExistsReject, api.OnExistsReplace},
	"format":            {"csv", "jsonl"},
}

// addCompletions lets shells complete the arguments and flags of all commands.
func addCompletions(root *cobra.Command) {
	for _, noun := range root.Commands() {
		for _, cmd := range append(noun.Commands(), noun) {
			path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
			if f := completeArgs[path]; f != nil {
				cmd.ValidArgsFunction = completion(f, slices.Contains(completeMany, cmd.Name()))
			}
			for name, values := range completeFlags {
				if of, flag, ok := strings.Cut(name, " "); ok && of == noun.Name() {
					name = flag
				}
				if cmd.Flags().Lookup(name) != nil {
					// It can only fail because it was done before.
					_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
				}
			}
			if cmd.Flags().Lookup("orchestration") != nil {
				_ = cmd.RegisterFlagCompletionFunc("orchestration", completion(orchestrationNames, true))
			}
		}
	}
}

// completion asks the store or the server.
func completion(f completer, many bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
		defer cancel()
		cmd.SetContext(ctx)
		h := homeOf(cmd)
		var found []string
		err := h.Reach(cmd, false, func(ctx context.Context, b connect.Backend) error {
			var err error
			found, err = f(ctx, b, h)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // a shell has no place for what went wrong
		}
		found = slices.DeleteFunc(found, func(name string) bool {
			return !strings.HasPrefix(name, begin) || slices.Contains(args, name) || console.OneLine(name) != name
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// homeOf returns where a command would look, by its flags.
func homeOf(cmd *cobra.Command) *connect.Home {
	h := &connect.Home{Tenant: abide.DefaultTenant}
	for name, to := range map[string]*string{
		"server": &h.Server.URL, "ca": &h.Server.CA, "cert": &h.Server.Cert, "key": &h.Server.Key, "db": &h.Path, "tenant": &h.Tenant,
	} {
		if f := cmd.Flags().Lookup(name); f != nil {
			*to = f.Value.String()
		}
	}
	return h
}

// names returns what each of several things is called.
func names[T any](of []T, name func(*T) string) []string {
	all := make([]string, len(of))
	for i := range of {
		all[i] = name(&of[i])
	}
	return all
}

func instanceIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	tenant := h.Tenant
	page, err := engine.List(ctx, abide.Filter{Tenant: &tenant, Descending: true, Limit: completeLimit})
	return names(page.Instances, func(i *abide.Info) string { return i.Ref.ID }), err
}

func orchestrationNames(ctx context.Context, b connect.Backend, _ *connect.Home) ([]string, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	found, err := workers.ReadOrchestrations(ctx, engine)
	return slices.Compact(names(found, func(o *api.Orchestration) string { return o.Name })), err
}

func quarantineIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	tenant := h.Tenant
	page, err := engine.Quarantine(ctx, abide.QuarantineFilter{Tenant: &tenant, Limit: completeLimit})
	return names(page.Messages, func(m *abide.Quarantined) string { return m.ID }), err
}

func entityIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	tenant := h.Tenant
	page, err := engine.Entities(ctx, abide.EntityFilter{Tenant: &tenant, Limit: completeLimit})
	return names(page.Entities, func(e *abide.EntityInfo) string { return e.Ref.ID }), err
}

func limitNames(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	found, err := engine.Limits(ctx, h.Tenant)
	return names(found, func(l *abide.LimitInfo) string { return l.Name }), err
}

func actionIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	actions, err := b.Actions()
	if err != nil {
		return nil, err
	}
	page, err := actions.List(ctx, action.Filter{Tenant: h.Tenant, Descending: true, Limit: completeLimit})
	return names(page.Actions, func(a *action.Action) string { return a.ID }), err
}

func scheduleIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	actions, err := b.Actions()
	if err != nil {
		return nil, err
	}
	page, err := actions.ListSchedules(ctx, action.ScheduleFilter{Tenant: h.Tenant, Limit: completeLimit})
	return names(page.Schedules, func(s *action.Schedule) string { return s.ID }), err
}

func timerKeys(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	timers, err := b.Timers()
	if err != nil {
		return nil, err
	}
	page, err := timers.List(ctx, timer.Filter{Tenant: h.Tenant, Descending: true, Limit: completeLimit})
	return names(page.Timers, func(t *timer.Timer) string { return t.Key }), err
}

func operationIDs(ctx context.Context, b connect.Backend, h *connect.Home) ([]string, error) {
	operations, err := b.Operations()
	if err != nil {
		return nil, err
	}
	page, err := operations.List(ctx, remote.OperationFilter{Tenant: h.Tenant, Limit: completeLimit})
	return names(page.Operations, func(o *api.Operation) string { return o.ID }), err
}

func tokenIDs(ctx context.Context, b connect.Backend, _ *connect.Home) ([]string, error) {
	tokens, err := b.Tokens()
	if err != nil {
		return nil, err
	}
	page, err := tokens.List(ctx, remote.TokenFilter{Limit: completeLimit})
	return names(page.Tokens, func(t *api.Token) string { return t.ID }), err
}
