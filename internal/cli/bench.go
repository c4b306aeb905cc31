package cli

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
	}, newBenchStore())
}
