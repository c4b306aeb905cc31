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

// envStore is the variable with the URL of the store, for all commands that have one.
const envStore = "ABIDE_STORE"

// benchStore is the verb: abide bench store.
type benchStore struct {
	opts     bench.Options
	out      output
	workload string
	keys     string
	reopen   string
	raw      bool
	quiet    bool
	loadOnly bool
	profiles profiles
}

func newBenchStore() *cobra.Command {
	b := &benchStore{}
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Measure a store as the engine uses it",
		Long: `Measure a store as the engine uses it.

The workload "commit" claims instances and commits a turn for each: the claimed
message is consumed, three entries of 200 bytes are appended to the log, the record
is put, and the message that makes the next turn is put. Commits per second cover
claim and commit; the commit latency is that of the commit alone.

The workload "claim" measures how long it takes to claim the one message that is due,
in a queue that may hold millions which are not (--pending), and again after many
were consumed (--consumed).

The store is left in place and can be measured again without being loaded again. What
it holds besides is not touched.`,
		Example: `  abide bench store --store pebble://data --committers 64 --duration 10s
  abide bench store --store pebble://data --raw --rounds 5 --json
  abide bench store --store pebble://data --workload claim --pending 1000000 --consumed 1000000
  abide bench store --store pebble://data --pending 10000000 --reopen=crash --idle 30s`,
		Args: noArgs,
		RunE: b.run,
	}
	b.addFlags(cmd)
	b.out.addTo(cmd)
	return cmd
}

func (b *benchStore) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.opts.Store, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given")
	f.StringVar(&b.workload, "workload", string(bench.WorkloadCommit), "what to measure: commit or claim")
	f.IntVar(&b.opts.Committers, "committers", 64, "goroutines that commit")
	f.IntVar(&b.opts.Claimers, "claimers", 1, "goroutines that claim for them")
	f.IntVar(&b.opts.Instances, "instances", 10_000, "instances that turns are committed for")
	f.StringVar(&b.keys, "keys", string(bench.KeysOrdered), "names of the keys: ordered by time, or random")
	f.DurationVar(&b.opts.Duration, "duration", 10*time.Second, "how long to measure; without end if --commits is given")
	f.Int64Var(&b.opts.Commits, "commits", 0, "end after so many commits, or claims with --workload claim")
	f.IntVar(&b.opts.Pending, "pending", 0, "messages in the queue that are not visible yet")
	f.IntVar(&b.opts.Consumed, "consumed", 0, "with --workload claim: messages to consume before measuring again")
	f.DurationVar(&b.opts.Idle, "idle", 0, "measure the CPU of an idle process for so long")
	f.StringVar(&b.reopen, "reopen", "", "open the loaded store again before measuring: clean (closed before) or crash (its process killed)")
	f.Lookup("reopen").NoOptDefVal = string(bench.ReopenClean)
	f.BoolVar(&b.raw, "raw", false, "also measure the engine below the store, in turns with it")
	f.IntVar(&b.opts.Rounds, "rounds", 3, "with --raw: how often to take turns")
	b.profiles.addTo(cmd, "; loading is left out")
	f.BoolVar(&b.quiet, "quiet", false, "show no progress")
	f.BoolVar(&b.loadOnly, "load-only", false, "load the store, say so, and wait to be killed")
	if err := f.MarkHidden("load-only"); err != nil {
		panic(err) // only for a flag that does not exist
	}
}

func (b *benchStore) run(cmd *cobra.Command, _ []string) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	o := b.opts
	if !b.quiet {
		o.Progress = bench.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	}
	if b.loadOnly {
		return load(cmd, o)
	}
	o.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) { return b.loadCommand(ctx, cmd.ErrOrStderr()) }
	if err := o.Validate(); err != nil {
		return err
	}
	cpu, mem, done, err := b.profiles.create()
	if err != nil {
		return err
	}
	o.CPUProfile, o.MemProfile = cpu, mem
	report, err := bench.Run(cmd.Context(), o)
	if closeErr := done(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return b.out.print(cmd.OutOrStdout(), report, report.WriteTable)
}

// check turns flags into options.
func (b *benchStore) check(cmd *cobra.Command) error {
	if err := b.out.check(cmd); err != nil {
		return err
	}
	if b.opts.Store == "" { // and not as the flag's default, which the help would show with its password
		b.opts.Store = os.Getenv(envStore)
	}
	if b.opts.Store == "" {
		return usage("no store: give --store URL or set %s; a URL looks like memory:// or pebble://data", envStore)
	}
	b.opts.Workload = bench.Workload(b.workload)
	b.opts.Keys = bench.KeyOrder(b.keys)
	b.opts.Reopen = bench.Reopen(b.reopen)
	if b.opts.Reopen == bench.ReopenNever && cmd.Flags().Changed("reopen") {
		return usage("--reopen is empty; known are: clean, crash")
	}
	if b.opts.Commits > 0 && !cmd.Flags().Changed("duration") {
		b.opts.Duration = 0
	}
	if !b.raw && cmd.Flags().Changed("rounds") {
		return usage("--rounds says how often to take turns with the raw engine: it needs --raw")
	}
	if b.raw {
		return setRaw(&b.opts)
	}
	return nil
}

// loadCommand returns this program again, told to load the store and nothing else.
func (b *benchStore) loadCommand(ctx context.Context, stderr io.Writer) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "bench", "store", "--load-only",
		fmt.Sprintf("--quiet=%t", b.quiet),
		"--workload", b.workload,
		"--keys", b.keys,
		fmt.Sprintf("--committers=%d", b.opts.Committers),
		fmt.Sprintf("--instances=%d", b.opts.Instances),
		fmt.Sprintf("--pending=%d", b.opts.Pending))
	cmd.Env = append(os.Environ(), envStore+"="+b.opts.Store) // arguments can be seen by others
	cmd.Stderr = stderr
	return cmd, nil
}

// load loads the store and waits to be killed, or for the end of its input, which is
// the end of the process that started it.
func load(cmd *cobra.Command, o bench.Options) error {
	return untilInputEnds(cmd, func(ctx context.Context, loaded func()) error { return bench.Load(ctx, o, loaded) })
}

// untilInputEnds runs f with a context that ends with the command's input, and a function
// that tells the process at its other end that the store is loaded.
func untilInputEnds(cmd *cobra.Command, f func(ctx context.Context, loaded func()) error) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, cmd.InOrStdin())
		cancel()
	}()
	return f(ctx, func() { fmt.Fprintln(cmd.OutOrStdout(), bench.LoadedLine) })
}
