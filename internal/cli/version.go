package cli

import (
	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/cli/console"
)

// version says what a binary was built from.
func newVersion() *cobra.Command {
	var out console.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(cmd); err != nil {
				return err
			}
			v := console.ReadVersion()
			return out.Print(cmd.OutOrStdout(), v, v.WriteTable)
		},
	}
	out.AddTo(cmd)
	return cmd
}
