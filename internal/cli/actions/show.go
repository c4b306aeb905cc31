package actions

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

func newActionsShow() *cobra.Command {
	var d connect.Home
	var body bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an action, its output and its next attempt",
		Example: `  abide actions show invoices-2026
  abide actions show invoices-2026 -o json
  abide actions show delivery-5f2c1a9be0d34c77a1c0de5544332211 --body > body.json`,
		Args: console.OneArg(actionID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
				if body {
					data, err := actions.Body(ctx, d.Tenant, args[0])
					if err != nil {
						return err
					}
					_, err = cmd.OutOrStdout().Write(data)
					return err
				}
				a, err := actions.Get(ctx, d.Tenant, args[0])
				if err != nil {
					return err
				}
				return d.Out.Print(cmd.OutOrStdout(), api.FromAction(a), func(w io.Writer) error { return showAction(w, &a) })
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "only the body of a webhook, byte for byte")
	d.AddTo(cmd)
	return cmd
}

// showAction prints all there is about an action.
func showAction(w io.Writer, a *action.Action) error {
	fields := [][2]string{
		{"id", a.ID},
		{"tenant", a.Tenant},
		{"slug", a.Slug},
		{"target", a.Target},
		{"warning", a.Warning},
		{"trigger", string(a.Trigger.Kind)},
		{"status", string(a.Status)},
		{"reason", a.Reason},
	}
	if a.Trigger.Kind == action.Webhook {
		fields = append(fields, [2]string{"received", console.LocalTime(a.Trigger.At)}, [2]string{"body", fmt.Sprintf("%d bytes", a.Trigger.Size)})
		for _, name := range slices.Sorted(maps.Keys(a.Trigger.Header)) {
			fields = append(fields, [2]string{"header", name + ": " + a.Trigger.Header[name]})
		}
	} else {
		fields = append(fields, [2]string{"due", console.LocalTime(a.Trigger.At)})
	}
	if a.Schedule != "" {
		fields = append(fields, [2]string{"schedule", a.Schedule}, [2]string{"run of", console.LocalTime(a.RunAt)})
	}
	fields = append(fields,
		[2]string{"payload", string(a.Payload)},
		[2]string{"idempotent", console.YesNo(a.Idempotent)},
		[2]string{"created", console.LocalTime(a.CreatedAt)},
		[2]string{"started", console.LocalTime(a.StartedAt)},
		[2]string{"ended", console.LocalTime(a.EndedAt)},
	)
	if a.Attempt > 0 {
		fields = append(fields, [2]string{"attempt", strconv.Itoa(a.Attempt)})
	}
	if took := tookOf(a); took != "" {
		fields = append(fields, [2]string{"took", took}, [2]string{"exit code", strconv.Itoa(a.Outcome.ExitCode)})
	}
	fields = append(fields, [2]string{"next", nextOf(a)})
	if err := console.WriteFields(w, fields); err != nil {
		return err
	}
	return writeOutput(w, &a.Outcome)
}

// nextOf says what happens next to an action, and what a person can do.
func nextOf(a *action.Action) string {
	switch a.Status {
	case action.Pending:
		again := ""
		if !a.RetryAt.IsZero() {
			again = "again, "
		}
		return fmt.Sprintf("it is run %sat the first tick from %s on, by a process that has the target %s", again, console.LocalTime(whenOf(a)), a.Target)
	case action.Running:
		return "it ends, or is cancelled: abide actions cancel " + a.ID
	case action.Failed, action.Cancelled:
		return "nothing, unless it is retried: abide actions retry " + a.ID
	default:
		return "nothing; it is removed when its retention is over"
	}
}

// writeOutput prints what a run has printed, indented.
func writeOutput(w io.Writer, out *action.Outcome) error {
	if out.Output == "" {
		return nil
	}
	title := "output"
	if out.Cut > 0 {
		title += fmt.Sprintf(", without %d bytes of its middle", out.Cut)
	}
	text := strings.ReplaceAll(strings.TrimRight(console.Printable(out.Output), "\n"), "\n", "\n  ")
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", title, text)
	return err
}
