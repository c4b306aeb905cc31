package cli

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	verbs := []*cobra.Command{newBenchStore()}
	for _, v := range engineVerbs {
		verbs = append(verbs, newBenchEngine(v))
	}
	verbs = append(verbs, newBenchTimers(), newBenchActions(), newBenchServe())
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
	}, verbs...)
}
