package cli

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// benchServe is the verb: abide bench serve.
type benchServe struct {
	measuring
	opts bench.ServeOptions
}

func newBenchServe() *cobra.Command {
	b := &benchServe{}
	cmd := &cobra.Command{
		Use:   string(bench.WorkloadServe),
		Short: "Measure the server: starts, pages and lists over HTTP, idling, and streams",
		Long: `Measure the server: starts, pages and lists over HTTP, idling, and streams.

A server with all of its parts, page and audit log included, listens on a port of this
machine, and its clients are in the same process. There are four parts, each of which can
be left out:

  --duration   Clients start one instance after another: what is answered is durable. The
               instances, with one activity each, run meanwhile.
  --instances  The store is loaded with instances that sleep and timers that are armed.
               Then pages and lists are asked for, one at a time, to the last byte.
  --idle       The CPU of the process is measured while nothing happens.
  --streams    Clients follow what changes while instances are started. The time is from
               the commit of a change until it has reached the last of them.

Answers are checked: one that says that something went wrong, a list without what it must
have and a change that does not reach a stream are errors.

Without --store the embedded store is measured, in a folder of the working directory that
is removed afterwards. A store that is given keeps the instances and timers, of tenants
whose names begin with abide-bench; what it holds besides is not touched, except that
timers and schedules which are due, whoever made them, fire too: do not give the store of
a program.`,
		Example: `  abide bench serve
  abide bench serve --duration 20s --instances 0 --idle 0 --streams 0 --json
  abide bench serve --duration 0 --streams 0 --instances 100000 --timers 1000000
  abide bench serve --duration 0 --instances 0 --idle 0 --streams 5000`,
		Args: noArgs,
		RunE: b.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.opts.Store, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given, or a temporary one")
	f.IntVar(&b.opts.Clients, "clients", 64, "clients that start one instance after another")
	f.DurationVar(&b.opts.Duration, "duration", 10*time.Second, "how long they do; 0 leaves that out")
	f.IntVar(&b.opts.Instances, "instances", 100_000, "instances that sleep while pages and lists are measured; 0 leaves these out")
	f.IntVar(&b.opts.Timers, "timers", 1_000_000, "timers that are armed then")
	f.IntVar(&b.opts.Pages, "pages", 50, "how often each page is asked for")
	f.IntVar(&b.opts.Lists, "lists", 500, "how many lists are asked for")
	f.DurationVar(&b.opts.Idle, "idle", 10*time.Second, "measure the CPU for so long while nothing happens; 0 leaves that out")
	f.IntVar(&b.opts.Streams, "streams", 1000, "clients that follow what changes; 0 leaves them out")
	f.IntVar(&b.opts.Changes, "changes", 50, "instances that are started while they do")
	f.IntVar(&b.opts.Rate, "rate", 5, "how many of these in a second")
	b.addTo(cmd, "; loading is in it")
	return cmd
}

func (b *benchServe) run(cmd *cobra.Command, _ []string) error {
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
		return bench.RunServe(cmd.Context(), o)
	})
}
