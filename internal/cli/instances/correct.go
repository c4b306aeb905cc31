package instances

import (
	"context"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

// newInstancesCorrect is the verb: abide instances correct.
func newInstancesCorrect() *cobra.Command {
	var h connect.Home
	var fix abide.Correction
	var data string
	cmd := &cobra.Command{
		Use:   "correct ID --data JSON | --discard",
		Short: "Correct a payload that does not fit its type, and resume the instance",
		Long: `Correct the payload because of which an instance has stalled, and resume it: an input, an
event, or the result of an activity or a child that does not fit its type. With --discard an
event is dropped instead. The history keeps both payloads.

'abide instances show' says which payload it is. Another one is named with --event, the number
of an event of the history, or with --message, the ID of a message that was not delivered.`,
		Example: `  abide instances correct refund-7 --data '{"approved":true,"by":"an operator"}'
  abide instances correct refund-7 --discard
  abide instances correct refund-7 --event 12 --data @result.json`,
		Args: console.OneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := console.ReadJSON(cmd, "data", data)
			switch {
			case err != nil:
				return err
			case fix.Discard && len(payload) > 0:
				return console.Usage("--data and --discard exclude each other")
			case !fix.Discard && len(payload) == 0:
				return console.Usage("%q needs --data with the payload, or --discard", cmd.CommandPath())
			case fix.Event < 0:
				return console.Usage("--event is %d; the number of an event of the history is allowed, from 1 on", fix.Event)
			case fix.Event > 0 && fix.Message != "":
				return console.Usage("--event and --message exclude each other")
			}
			fix.Data = payload
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				ref := refOf(&h, args[0])
				if err := engine.Correct(ctx, ref, fix); err != nil {
					return err
				}
				return printCurrent(ctx, &h, cmd, engine, ref)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&data, "data", "", "the payload as JSON; @FILE for that of a file, @- for standard input")
	f.BoolVar(&fix.Discard, "discard", false, "drop the event instead")
	f.IntVar(&fix.Event, "event", 0, "an event of the history, instead of the payload that made the instance stall")
	f.StringVar(&fix.Message, "message", "", "a message that was not delivered, likewise")
	f.BoolVar(&fix.Unchecked, "unchecked", false, "accept a payload that does not fit what workers have published")
	h.AddTo(cmd)
	return cmd
}
