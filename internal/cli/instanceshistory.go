package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

func newInstancesHistory() *cobra.Command {
	var h home
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
		Args: oneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if execution < 0 {
				return usage("--execution is %d; 1 or more is allowed, or 0 for the latest", execution)
			}
			return h.useEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := engine.History(ctx, h.ref(args[0]), execution)
				if err != nil {
					return err
				}
				return h.out.print(cmd.OutOrStdout(), found, func(w io.Writer) error {
					return writeHistory(w, &found, startOf(&found), 0)
				})
			})
		},
	}
	cmd.Flags().IntVar(&execution, "execution", 0, "which generation of the instance: 1 is the first; 0 means the latest")
	h.addTo(cmd)
	return cmd
}
