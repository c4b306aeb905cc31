package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/bench"
)

// benchEngine is the verbs that measure orchestrations: abide bench hello, and so on.
type benchEngine struct {
	opts     bench.EngineOptions
	out      output
	reopen   string
	quiet    bool
	loadOnly bool
	profiles profiles
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
	b.profiles.addTo(cmd, "")
	f.BoolVar(&b.quiet, "quiet", false, "show no progress")
	b.out.addTo(cmd)
	return cmd
}

// addEnd adds the flags that say when it ends.
func (b *benchEngine) addEnd(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&b.opts.N, "n", 0, "end after so many orchestrations")
	cmd.Flags().DurationVar(&b.opts.Duration, "duration", 10*time.Second, "how long to measure; without end if --n is given")
}

func (b *benchEngine) addClients(cmd *cobra.Command) {
	cmd.Flags().IntVar(&b.opts.Clients, "clients", 64, "clients that start an orchestration, wait for its result, and start the next")
}

func (b *benchEngine) run(cmd *cobra.Command, _ []string) (err error) {
	if err := b.check(cmd); err != nil {
		return err
	}
	o := b.opts
	o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	if !b.quiet {
		o.Progress = bench.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	}
	if b.loadOnly {
		return untilInputEnds(cmd, func(ctx context.Context, loaded func()) error { return bench.LoadEngine(ctx, o, loaded) })
	}
	temporary := o.Store == ""
	if temporary {
		o.Store = "pebble://." // until nothing else can be wrong
	}
	o.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) { return b.loadCommand(ctx, o.Store, cmd.ErrOrStderr()) }
	if err := o.Validate(); err != nil {
		return err
	}
	if temporary {
		var remove func() error
		if o.Store, remove, err = temporaryStore(); err != nil {
			return err
		}
		defer func() {
			if removeErr := remove(); err == nil {
				err = removeErr
			}
		}()
	}
	cpu, mem, done, err := b.profiles.create()
	if err != nil {
		return err
	}
	o.CPUProfile, o.MemProfile = cpu, mem
	report, err := bench.RunEngine(cmd.Context(), o)
	if closeErr := done(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return b.out.print(cmd.OutOrStdout(), report, report.WriteTable)
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
	b.opts.Reopen = bench.Reopen(b.reopen)
	if b.opts.Reopen == bench.ReopenNever && f.Changed("reopen") {
		return usage("--reopen is empty; known are: clean, crash")
	}
	for _, name := range []string{"over", "lead"} {
		if f.Changed(name) && (b.opts.Idle > 0 || b.opts.Reopen != bench.ReopenNever) {
			return usage("--%s says when instances wake, and with --idle or --reopen none does: give one or the other", name)
		}
	}
	return nil
}

// temporaryStore returns the URL of an embedded store in a new folder of the working
// directory, and what removes it. It is not in the system's folder for such things, which
// is memory on some machines: a sync there costs nothing and says nothing.
func temporaryStore() (storeURL string, remove func() error, err error) {
	dir, err := os.MkdirTemp(".", ".bench.")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for a temporary store; give another one with --store: %w", err)
	}
	remove = func() error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the temporary store: %w", err)
		}
		return nil
	}
	u := url.URL{Scheme: "pebble", Path: filepath.ToSlash(filepath.Join(dir, "store"))}
	return u.String(), remove, nil
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
