package instances

import (
	"context"
	"io"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

func newInstancesHistory() *cobra.Command {
	var h connect.Home
	var execution int
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Print the history of an instance",
		Long: `Print the history of an execution of an instance, the latest one unless --execution says
otherwise. That of the one before is kept as well.

With -o json it can be kept in a file, and replayed against the code of another day: see
package abidetest.`,
		Example: `  abide instances history order-1
  abide instances history order-1 --execution 3
  abide instances history order-1 -o json > testdata/order.json`,
		Args: console.OneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if execution < 0 {
				return console.Usage("--execution is %d; 1 or more is allowed, or 0 for the latest", execution)
			}
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := engine.History(ctx, refOf(&h, args[0]), execution)
				if err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), found, func(w io.Writer) error {
					return writeHistory(w, &found, startOf(&found), 0)
				})
			})
		},
	}
	cmd.Flags().IntVar(&execution, "execution", 0, "which generation of the instance: 1 is the first; 0 means the latest")
	h.AddTo(cmd)
	return cmd
}
