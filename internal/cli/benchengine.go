package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/bench"
)

// benchEngine is the verbs that measure orchestrations: abide bench hello, and so on.
type benchEngine struct {
	measuring
	opts      bench.EngineOptions
	processes int
}

// engineVerb is what one of the verbs has of its own.
type engineVerb struct {
	workload bench.Workload
	short    string
	long     string
	example  string
	flags    func(b *benchEngine, cmd *cobra.Command)
}

// everyVerb is what is true of all of them.
const everyVerb = `

One engine serves the orchestrations, and its clients are in the same process. Without
--store the embedded store is measured, in a folder of the working directory that is
removed afterwards. A store that is given keeps the instances, of the tenant
abide-bench; what it holds besides is not touched.`

func newBenchEngine(v engineVerb) *cobra.Command {
	b := &benchEngine{opts: bench.EngineOptions{Workload: v.workload}}
	cmd := &cobra.Command{
		Use:     string(v.workload),
		Short:   v.short,
		Long:    v.long + everyVerb,
		Example: v.example,
		Args:    noArgs,
		RunE:    b.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.opts.Store, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given, or a temporary one")
	v.flags(b, cmd)
	b.addTo(cmd, "")
	return cmd
}

// addEnd adds the flags that say when it ends.
func (b *benchEngine) addEnd(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&b.opts.N, "n", 0, "end after so many orchestrations")
	cmd.Flags().DurationVar(&b.opts.Duration, "duration", 10*time.Second, "how long to measure; without end if --n is given")
}

func (b *benchEngine) addClients(cmd *cobra.Command) {
	cmd.Flags().IntVar(&b.opts.Clients, "clients", 64, "clients that start an orchestration, wait for its result, and start the next")
	cmd.Flags().IntVar(&b.processes, "processes", 1, "processes among which the clients and --n are divided, each with an engine of its own, on a store that allows several")
}

func (b *benchEngine) run(cmd *cobra.Command, _ []string) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	o := b.opts
	o.Logger, o.Progress = b.tell(cmd)
	if b.loadOnly {
		return untilInputEnds(cmd, func(ctx context.Context, loaded func()) error { return bench.LoadEngine(ctx, o, loaded) })
	}
	if cmd.Flags().Changed("processes") && b.processes != 1 {
		return b.runProcesses(cmd, o)
	}
	o.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) { return b.loadCommand(ctx, o.Store, cmd.ErrOrStderr()) }
	return b.measure(cmd, &o.Store, o.Validate, func(cpu, mem io.Writer) (*bench.Report, error) {
		o.CPUProfile, o.MemProfile = cpu, mem
		return bench.RunEngine(cmd.Context(), o)
	})
}

// check turns flags into options.
func (b *benchEngine) check(cmd *cobra.Command) error {
	if err := b.out.check(cmd); err != nil {
		return err
	}
	if b.opts.Store == "" {
		b.opts.Store = os.Getenv(envStore)
	}
	f := cmd.Flags()
	if b.opts.N > 0 && !f.Changed("duration") {
		b.opts.Duration = 0
	}
	if b.opts.Workload != bench.WorkloadSleep {
		return nil
	}
	var err error
	if b.opts.Reopen, err = b.wayToReopen(cmd); err != nil {
		return err
	}
	for _, name := range []string{"over", "lead"} {
		if f.Changed(name) && (b.opts.Idle > 0 || b.opts.Reopen != bench.ReopenNever) {
			return usage("--%s says when instances wake, and with --idle or --reopen none does: give one or the other", name)
		}
	}
	return nil
}

// loadCommand returns this program again, told to start instances that sleep, and nothing
// else.
func (b *benchEngine) loadCommand(ctx context.Context, store string, stderr io.Writer) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "bench", string(b.opts.Workload), "--load-only",
		fmt.Sprintf("--quiet=%t", b.quiet),
		fmt.Sprintf("--n=%d", b.opts.N))
	cmd.Env = append(os.Environ(), envStore+"="+store) // arguments can be seen by others
	cmd.Stderr = stderr
	return cmd, nil
}

// runProcesses runs this program several times at once, each with its part of the clients
// and of the orchestrations.
func (b *benchEngine) runProcesses(cmd *cobra.Command, o bench.EngineOptions) error {
	if o.Store == "" {
		return usage("--processes needs a --store that several processes can open: postgres, redis or sqlite")
	}
	for _, name := range []string{"cpuprofile", "memprofile"} {
		if cmd.Flags().Changed(name) {
			return usage("--%s is of one process: leave out --processes", name)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	n, errs := b.processes, &inTurn{w: cmd.ErrOrStderr()}
	report, err := bench.RunProcesses(cmd.Context(), n, o, func(ctx context.Context, i int) (*exec.Cmd, error) {
		args := []string{"bench", string(o.Workload), "--quiet", "--json"}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			switch f.Name {
			case "store", "processes", "clients", "n", "quiet", "output", "json":
			default:
				args = append(args, "--"+f.Name+"="+f.Value.String())
			}
		})
		args = append(args, fmt.Sprintf("--clients=%d", part(int64(o.Clients), n, i)))
		if o.N > 0 {
			args = append(args, fmt.Sprintf("--n=%d", part(o.N, n, i)))
		}
		child := exec.CommandContext(ctx, program, args...)
		child.Env = append(os.Environ(), envStore+"="+o.Store) // arguments can be seen by others
		child.Stderr = errs
		return child, nil
	})
	if err != nil {
		return err
	}
	return b.out.print(cmd.OutOrStdout(), report, report.WriteTable)
}

// part returns how many of so many are those of one of n: about as many as those of every
// other, and at least one.
func part(all int64, n, i int) int64 {
	share, rest := all/int64(n), all%int64(n)
	if int64(i) < rest {
		share++
	}
	return max(share, 1)
}

// inTurn is what several processes write to at once.
type inTurn struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *inTurn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}
