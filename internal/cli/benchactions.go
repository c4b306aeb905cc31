package cli

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// benchActions is the verb: abide bench actions.
type benchActions struct {
	measuring
	opts bench.ActionsOptions
}

func newBenchActions() *cobra.Command {
	b := &benchActions{}
	cmd := &cobra.Command{
		Use:   string(bench.WorkloadActions),
		Short: "Measure actions: ticks, how fast actions are run, and webhooks that arrive",
		Long: `Measure actions: ticks, how fast actions are run, and webhooks that arrive.

First, ticks are measured while nothing is due; with --pending there are actions then that
are not due in the run. Then actions are added that are due, and run, by a target in this
process that does nothing: the time is from the first tick until the last outcome is
durable. In the end senders in this process send signed webhooks over HTTP to a port of
this machine, each the next one when the one before was answered: what is answered is
durable. After that, those are run, too.

Without --store the embedded store is measured, in a folder of the working directory that
is removed afterwards. A store that is given keeps the actions, of the tenant and for the
target abide-bench; what it holds besides is not touched, except that schedules which are
due make their actions.`,
		Example: `  abide bench actions
  abide bench actions --pending 1000000 --json
  abide bench actions --n 100000 --slots 4000 --duration 0
  abide bench actions --clients 128 --body 4096 --duration 10s`,
		Args: noArgs,
		RunE: b.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.opts.Store, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given, or a temporary one")
	f.IntVar(&b.opts.N, "n", 50_000, "actions that are due at the same time")
	f.IntVar(&b.opts.Slots, "slots", 1000, "actions that run at a time")
	f.IntVar(&b.opts.Pending, "pending", 0, "actions that are there first, and are not due in the run")
	f.IntVar(&b.opts.Ticks, "ticks", 1000, "ticks that are measured while nothing is due")
	f.IntVar(&b.opts.Clients, "clients", 64, "senders of webhooks")
	f.DurationVar(&b.opts.Duration, "duration", 5*time.Second, "how long they send; 0 leaves that out")
	f.IntVar(&b.opts.Body, "body", 512, "bytes in the body of a webhook")
	b.addTo(cmd, "; loading what is pending is left out")
	return cmd
}

func (b *benchActions) run(cmd *cobra.Command, _ []string) error {
	if err := b.out.check(cmd); err != nil {
		return err
	}
	o := b.opts
	if o.Store == "" {
		o.Store = os.Getenv(envStore)
	}
	o.Logger, o.Progress = b.tell(cmd)
	return b.measure(cmd, &o.Store, o.Validate, func(cpu, mem io.Writer) (*bench.Report, error) {
		o.CPUProfile, o.MemProfile = cpu, mem
		return bench.RunActions(cmd.Context(), o)
	})
}
