package actions

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
)

// New returns the command abide actions.
func New() *cobra.Command {
	return console.Group(&cobra.Command{
		Use:     "actions",
		Aliases: []string{"action"},
		Short:   "Add, list, show, cancel and retry actions",
		Long: `Actions are what the tick loop does: see 'abide orchestrate'. An action is pending until it
is due, running while its command runs, and then completed, failed or cancelled.

` + connect.HomeHelp,
	}, newActionsAdd(), newActionsList(), newActionsShow(), newActionsCancel(), newActionsRetry())
}

func newActionsAdd() *cobra.Command {
	var d connect.Home
	var r action.Request
	var at, payload string
	cmd := &cobra.Command{
		Use:   "add SLUG",
		Short: "Add an action",
		Long: `Add an action. It is done at the first tick at which it is due: at the next one, unless --at
or --in says otherwise. SLUG is what it is for, such as the name of a service.

` + console.TimeHelp,
		Example: `  abide actions add billing
  abide actions add billing --in 10m
  abide actions add billing --at "2026-12-24 09:00" --payload '{"full":true}' --id invoices-2026
  abide actions add billing --payload @request.json --idempotent`,
		Args: console.OneArg("a slug"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			r.Tenant, r.Slug = d.Tenant, args[0]
			if err := action.CheckSlug(r.Slug); err != nil {
				return err // before a store is made for it
			}
			if r.At, err = console.ParseTime("at", at, base.System{}.Now(), time.Local); err != nil {
				return err
			}
			if r.Payload, err = console.ReadPayload(cmd, payload); err != nil {
				return err
			}
			return d.UseActions(cmd, true, func(ctx context.Context, actions connect.ActionsAPI) error {
				a, existed, err := actions.Add(ctx, r)
				if err != nil {
					return err
				}
				if existed {
					cmd.PrintErrf("action %s is there already, and stays as it is\n", a.ID)
				}
				printWarning(cmd, a.Warning)
				return actionRows.PrintOne(cmd, &d.Out, a)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&at, "at", "", "when it is due")
	console.DurationVar(f, &r.Delay, "in", 0, "how long from now it is due: 90s, 10m, 2h30m, or a number of seconds")
	f.StringVar(&payload, "payload", "", "JSON for the command's standard input; @FILE for that of a file, @- for standard input")
	f.StringVar(&r.Target, "target", CommandTarget, "what does it: "+CommandTarget+" is the command of 'abide orchestrate'")
	f.StringVar(&r.ID, "id", "", "a name of your own: adding the same one twice adds one action")
	f.BoolVar(&r.Idempotent, "idempotent", false, "it may be run again if its outcome is unknown")
	d.AddTo(cmd)
	return cmd
}

func newActionsCancel() *cobra.Command {
	var why string
	cmd := actionVerb(&cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel an action",
		Long:    "Cancel an action that is pending, or interrupt one that runs: its command gets SIGTERM, and\nSIGKILL later.",
		Example: `  abide actions cancel invoices-2026 --reason "sent by hand"`,
	}, actionID, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Action, error) {
		return actions.Cancel(ctx, tenant, id, why)
	})
	cmd.Flags().StringVar(&why, "reason", "", "why")
	return cmd
}

func newActionsRetry() *cobra.Command {
	return actionVerb(&cobra.Command{
		Use:     "retry ID",
		Short:   "Retry an action that has failed or was cancelled",
		Example: "  abide actions retry invoices-2026",
	}, actionID, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Action, error) {
		return actions.Retry(ctx, tenant, id)
	})
}

// actionID is what most of the commands take.
const actionID = "the ID of an action"

// actionVerb makes a command that does something to what is named, and prints the action that
// comes of it.
func actionVerb(cmd *cobra.Command, what string, do func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Action, error)) *cobra.Command {
	return connect.Verb(cmd, what, connect.Backend.Actions, do, func(cmd *cobra.Command, out *console.Output, a action.Action) error {
		printWarning(cmd, a.Warning)
		return actionRows.PrintOne(cmd, out, a)
	})
}

// printWarning prints a warning, if there is one.
func printWarning(cmd *cobra.Command, text string) {
	if text != "" {
		cmd.PrintErrf("warning: %s\n", console.Printable(text))
	}
}

// CommandTarget is the name of the target that orchestrate has.
const CommandTarget = "command"
