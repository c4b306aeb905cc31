package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// engineVerbs are the verbs that measure orchestrations.
var engineVerbs = []engineVerb{
	{
		workload: bench.WorkloadHello,
		short:    "Measure orchestrations with one activity",
		long: `Measure orchestrations with one activity.

Each client starts an orchestration, waits for its result, and starts the next one. The
latency is from the call that starts it to its result. CPU is that of the whole process.`,
		example: `  abide bench hello
  abide bench hello --store memory:// --n 10000 --clients 16 --json`,
		flags: func(b *benchEngine, cmd *cobra.Command) {
			b.addEnd(cmd)
			b.addClients(cmd)
		},
	},
	{
		workload: bench.WorkloadSequence,
		short:    "Measure activities, or steps, one after another",
		long: `Measure orchestrations with activities one after another, each of which takes the
result of the one before. With --steps they are steps: run inline by the turn that
reaches them.`,
		example: `  abide bench sequence
  abide bench sequence --steps --length 100 --json`,
		flags: func(b *benchEngine, cmd *cobra.Command) {
			b.addEnd(cmd)
			b.addClients(cmd)
			cmd.Flags().IntVar(&b.opts.Length, "length", 10, "activities or steps of an orchestration")
			cmd.Flags().BoolVar(&b.opts.Steps, "steps", false, "steps instead of activities")
		},
	},
	{
		workload: bench.WorkloadFanout,
		short:    "Measure many activities at once",
		long: `Measure orchestrations that ask for many activities at once, and wait for all of
them.`,
		example: `  abide bench fanout
  abide bench fanout --width 10000 --clients 1 --n 10 --json`,
		flags: func(b *benchEngine, cmd *cobra.Command) {
			b.addEnd(cmd)
			b.addClients(cmd)
			cmd.Flags().IntVar(&b.opts.Width, "width", 100, "activities of an orchestration")
		},
	},
	{
		workload: bench.WorkloadSleep,
		short:    "Measure how late instances wake, and what it costs that they sleep",
		long: `Measure how late instances wake, and what it costs that they sleep.

Instances are started, each with the time at which it is due. When all of them sleep
they begin to be due, at random times. The lateness is from that time to the moment at
which the instance's code runs, by the clock of this machine; that of the turn is by the
clock of the store. Memory is what the process has when all of them sleep.

With --idle or --reopen they sleep for a day and more. --idle measures the CPU of the
process while they do. --reopen opens the store again, after it was closed or after the
process that had started them was killed, and measures how long that takes until the
engine serves, and until a new hello has its result.`,
		example: `  abide bench sleep
  abide bench sleep --n 100000 --over 1m --json
  abide bench sleep --n 100000 --idle 20s --reopen
  abide bench sleep --n 100000 --reopen=crash`,
		flags: func(b *benchEngine, cmd *cobra.Command) {
			f := cmd.Flags()
			f.Int64Var(&b.opts.N, "n", 10_000, "instances")
			f.DurationVar(&b.opts.Over, "over", 10*time.Second, "the time over which they wake")
			f.DurationVar(&b.opts.Lead, "lead", 0, "the time between the first start and the first that is due; as long as it probably takes to start them if not given")
			f.DurationVar(&b.opts.Idle, "idle", 0, "measure the CPU for so long while all sleep")
			b.addReopen(cmd, "open the store again while all sleep", "start the instances")
		},
	},
	{
		workload: bench.WorkloadEvents,
		short:    "Measure events that are raised from outside",
		long: `Measure orchestrations that receive events. Each client starts an orchestration,
raises its events one after another, each as soon as the one before is durable, and
waits for the result.`,
		example: `  abide bench events
  abide bench events --length 1000 --clients 8 --json`,
		flags: func(b *benchEngine, cmd *cobra.Command) {
			b.addEnd(cmd)
			b.addClients(cmd)
			cmd.Flags().IntVar(&b.opts.Length, "length", 10, "events of an orchestration")
		},
	},
	{
		workload: bench.WorkloadIdle,
		short:    "Measure one orchestration at a time",
		long: `Measure one orchestration with one activity at a time, on an engine that has nothing
else to do: what somebody waits who is alone.`,
		example: `  abide bench idle
  abide bench idle --n 1000 --json`,
		flags: func(b *benchEngine, cmd *cobra.Command) { b.addEnd(cmd) },
	},
}
