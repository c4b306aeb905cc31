package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

func newActionsShow() *cobra.Command {
	var d home
	var body bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an action, its output and its next attempt",
		Example: `  abide actions show invoices-2026
  abide actions show invoices-2026 -o json
  abide actions show delivery-5f2c1a9be0d34c77a1c0de5544332211 --body > body.json`,
		Args: oneArg("the ID of an action"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
				if body {
					data, err := actions.Body(ctx, d.tenant, args[0])
					if err != nil {
						return err
					}
					_, err = cmd.OutOrStdout().Write(data)
					return err
				}
				a, err := actions.Get(ctx, d.tenant, args[0])
				if err != nil {
					return err
				}
				return d.out.print(cmd.OutOrStdout(), api.FromAction(a), func(w io.Writer) error { return showAction(w, &a) })
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "only the body of a webhook, byte for byte")
	d.addTo(cmd)
	return cmd
}

// showAction prints all there is about an action.
func showAction(w io.Writer, a *action.Action) error {
	fields := [][2]string{
		{"id", a.ID},
		{"tenant", a.Tenant},
		{"slug", a.Slug},
		{"target", a.Target},
		{"trigger", string(a.Trigger.Kind)},
		{"status", string(a.Status)},
		{"reason", a.Reason},
	}
	if a.Trigger.Kind == action.Webhook {
		fields = append(fields, [2]string{"received", localTime(a.Trigger.At)}, [2]string{"body", fmt.Sprintf("%d bytes", a.Trigger.Size)})
		for _, name := range slices.Sorted(maps.Keys(a.Trigger.Header)) {
			fields = append(fields, [2]string{"header", name + ": " + a.Trigger.Header[name]})
		}
	} else {
		fields = append(fields, [2]string{"due", localTime(a.Trigger.At)})
	}
	if a.Schedule != "" {
		fields = append(fields, [2]string{"schedule", a.Schedule}, [2]string{"run of", localTime(a.RunAt)})
	}
	fields = append(fields,
		[2]string{"payload", string(a.Payload)},
		[2]string{"idempotent", yesNo(a.Idempotent)},
		[2]string{"created", localTime(a.CreatedAt)},
		[2]string{"started", localTime(a.StartedAt)},
		[2]string{"ended", localTime(a.EndedAt)},
	)
	if a.Attempt > 0 {
		fields = append(fields, [2]string{"attempt", strconv.Itoa(a.Attempt)})
	}
	if took := tookOf(a); took != "" {
		fields = append(fields, [2]string{"took", took}, [2]string{"exit code", strconv.Itoa(a.Outcome.ExitCode)})
	}
	fields = append(fields, [2]string{"next", nextOf(a)})
	if err := writeFields(w, fields); err != nil {
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
		return fmt.Sprintf("it is run %sat the first tick from %s on, by a process that has the target %s", again, localTime(whenOf(a)), a.Target)
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
	text := strings.ReplaceAll(strings.TrimRight(printable(out.Output), "\n"), "\n", "\n  ")
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", title, text)
	return err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
