package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// benchTimers is the verb: abide bench timers.
type benchTimers struct {
	measuring
	opts bench.TimersOptions
}

func newBenchTimers() *cobra.Command {
	b := &benchTimers{}
	cmd := &cobra.Command{
		Use:   string(bench.WorkloadTimers),
		Short: "Measure tenant timers: how fast they are scheduled, and how late they are published",
		Long: `Measure tenant timers: how fast they are scheduled, and how late they are published.

First, clients schedule one timer after another, for a while. Then timers are scheduled
in bulk, which begin to be due when all of them are there, at random times. They are
published to a subscriber in this process. The lateness is from the time at which a timer
is due to the moment at which the subscriber is told, by the clock of this machine.

With --herd all timers of one tenant are due at the same instant, and a few of another
tenant while they are drained.

With --pending there are timers first that are not due in the run. Memory is what the
process has then. --idle measures the CPU of the process while they wait. --reopen opens
the store again, after it was closed or after the process that had scheduled them was
killed, and measures how long that takes until a new timer is published.

One service fires the timers, in this process. Without --store the embedded store is
measured, in a folder of the working directory that is removed afterwards. A store that
is given keeps the timers, of tenants whose names begin with abide-bench-; what it holds
besides is not touched, except that timers which are due, whoever scheduled them, are
fired too: do not give the store of a program.`,
		Example: `  abide bench timers
  abide bench timers --n 1000000 --over 100s --duration 0 --json
  abide bench timers --herd 1000000
  abide bench timers --pending 10000000 --reopen=crash --idle 20s`,
		Args: noArgs,
		RunE: b.run,
	}
	b.addFlags(cmd)
	return cmd
}

func (b *benchTimers) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.opts.Store, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given, or a temporary one")
	f.IntVar(&b.opts.N, "n", 100_000, "timers that are due within --over")
	f.DurationVar(&b.opts.Over, "over", 10*time.Second, "the time over which they are due")
	f.DurationVar(&b.opts.Lead, "lead", 0, "the time between the first that is scheduled and the first that is due; as long as it probably takes to schedule them if not given")
	f.IntVar(&b.opts.Herd, "herd", 0, "timers that are due at the same instant, instead of --n")
	f.IntVar(&b.opts.Clients, "clients", 64, "clients that schedule one timer after another")
	f.DurationVar(&b.opts.Duration, "duration", 5*time.Second, "how long they do; 0 leaves that out")
	f.IntVar(&b.opts.Bulk, "bulk", 1000, "timers that are scheduled in one commit")
	f.IntVar(&b.opts.Tenants, "tenants", 10, "tenants that the timers belong to")
	f.IntVar(&b.opts.Payload, "payload", 64, "bytes that each timer carries")
	f.IntVar(&b.opts.Pending, "pending", 0, "timers that are there first, and are not due in the run")
	f.DurationVar(&b.opts.Idle, "idle", 0, "measure the CPU for so long while nothing is due")
	b.addReopen(cmd, "open the store again while timers are pending", "schedule what is pending")
	b.addTo(cmd, "; loading what is pending is left out")
}

func (b *benchTimers) run(cmd *cobra.Command, _ []string) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	o := b.opts
	o.Logger, o.Progress = b.tell(cmd)
	if b.loadOnly {
		return untilInputEnds(cmd, func(ctx context.Context, loaded func()) error { return bench.LoadTimers(ctx, o, loaded) })
	}
	o.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) { return b.loadCommand(ctx, o.Store, cmd.ErrOrStderr()) }
	return b.measure(cmd, &o.Store, o.Validate, func(cpu, mem io.Writer) (*bench.Report, error) {
		o.CPUProfile, o.MemProfile = cpu, mem
		return bench.RunTimers(cmd.Context(), o)
	})
}

// check turns flags into options.
func (b *benchTimers) check(cmd *cobra.Command) error {
	if err := b.out.check(cmd); err != nil {
		return err
	}
	if b.opts.Store == "" {
		b.opts.Store = os.Getenv(envStore)
	}
	for _, name := range []string{"n", "over", "clients", "duration"} {
		if b.opts.Herd != 0 && cmd.Flags().Changed(name) {
			return usage("--%s is about timers that are not due at the same instant, and with --herd all are: give one or the other", name)
		}
	}
	var err error
	b.opts.Reopen, err = b.wayToReopen(cmd)
	return err
}

// loadCommand returns this program again, told to schedule what is pending, and nothing
// else.
func (b *benchTimers) loadCommand(ctx context.Context, store string, stderr io.Writer) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "bench", string(bench.WorkloadTimers), "--load-only",
		fmt.Sprintf("--quiet=%t", b.quiet),
		fmt.Sprintf("--pending=%d", b.opts.Pending),
		fmt.Sprintf("--bulk=%d", b.opts.Bulk),
		fmt.Sprintf("--tenants=%d", b.opts.Tenants),
		fmt.Sprintf("--payload=%d", b.opts.Payload))
	cmd.Env = append(os.Environ(), envStore+"="+store) // arguments can be seen by others
	cmd.Stderr = stderr
	return cmd, nil
}
