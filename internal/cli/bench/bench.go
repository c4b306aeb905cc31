package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/actions"
	"github.com/abidehq/abide/internal/bench/engine"
	benchserve "github.com/abidehq/abide/internal/bench/serve"
	"github.com/abidehq/abide/internal/bench/soak"
	"github.com/abidehq/abide/internal/bench/storage"
	"github.com/abidehq/abide/internal/bench/timers"
	benchworkers "github.com/abidehq/abide/internal/bench/workers"
)

// New returns the command abide bench.
func New() *cobra.Command {
	specs := append([]bench.Spec{storage.Spec(), storage.SearchSpec()}, engine.Specs()...)
	specs = append(specs, timers.Spec(), actions.Spec(), benchserve.Spec(), benchworkers.Spec(), soak.Spec())
	var verbs []*cobra.Command
	for _, spec := range specs {
		verbs = append(verbs, newBenchVerb(spec))
	}
	return console.Group(&cobra.Command{Use: "bench", Short: "Measure this machine"}, verbs...)
}

// benchVerb is a command that measures a workload.
type benchVerb struct {
	spec      bench.Spec
	workload  bench.Workload
	config    bench.Config
	out       console.Output
	processes int
	cpu, mem  string // files of profiles
	quiet     bool
	loadOnly  bool
}

func newBenchVerb(spec bench.Spec) *cobra.Command {
	b := &benchVerb{spec: spec, processes: 1}
	cmd := &cobra.Command{Use: spec.Name, Short: spec.Short, Long: spec.Long, Example: spec.Example, Args: console.NoArgs, RunE: b.run}
	f := cmd.Flags()
	f.SortFlags = false
	temporary := ", or a temporary one"
	if spec.NeedsStore {
		temporary = ""
	}
	f.StringVar(&b.config.URL, "store", "", "URL of the store, such as memory:// or pebble://data; $ABIDE_STORE if not given"+temporary)
	b.workload = spec.New(f, &b.config)
	if spec.Processes {
		f.IntVar(&b.processes, "processes", 1, "processes among which the clients and --n are divided, each with an engine of its own, on a store that allows several")
	}
	f.StringVar(&b.cpu, "cpuprofile", "", "write a profile of the CPU to this file; loading the store first is left out")
	f.BoolVar(&b.config.ProfileLoad, "profile-load", false, "let the profile of the CPU begin with loading")
	f.StringVar(&b.mem, "memprofile", "", "write a profile of the memory to this file")
	f.BoolVar(&b.quiet, "quiet", false, "show no progress")
	if f.Lookup("reopen") != nil {
		f.BoolVar(&b.loadOnly, "load-only", false, "load the store, print a line, and wait to be killed")
		f.Lookup("load-only").Hidden = true
	}
	b.out.AddTo(cmd)
	return cmd
}

func (b *benchVerb) run(cmd *cobra.Command, _ []string) error {
	if err := b.out.Check(cmd); err != nil {
		return err
	}
	if b.config.URL == "" { // and not as the flag's default, which the help would show with its password
		b.config.URL = os.Getenv(connect.EnvStore)
	}
	stderr := &inTurn{w: cmd.ErrOrStderr()}
	b.config.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if !b.quiet {
		b.config.Progress = bench.NewProgress(cmd.ErrOrStderr(), console.IsTerminal(cmd.ErrOrStderr()))
	}
	switch {
	case b.loadOnly:
		return b.load(cmd)
	case b.processes != 1:
		return b.divide(cmd, stderr)
	}
	b.config.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) {
		return b.command(ctx, cmd, stderr, []string{"--load-only"}, "json", "output", "cpuprofile", "memprofile")
	}
	return b.measure(cmd)
}

// measure runs the workload on the store that is given, or on a temporary one, and prints the
// report.
func (b *benchVerb) measure(cmd *cobra.Command) (err error) {
	if b.config.URL == "" {
		if b.spec.NeedsStore {
			return console.Usage("no store: give --store URL or set %s; a URL looks like memory:// or pebble://data", connect.EnvStore)
		}
		b.config.URL = "pebble://."
		if err := b.config.Validate(b.workload); err != nil { // before there is a folder
			return err
		}
		storeURL, remove, err := temporaryStore()
		if err != nil {
			return err
		}
		b.config.URL = storeURL
		defer func() { err = errors.Join(err, remove()) }()
	}
	if err := b.config.Validate(b.workload); err != nil { // before there are files
		return err
	}
	for path, w := range map[string]*io.Writer{b.cpu: &b.config.CPUProfile, b.mem: &b.config.MemProfile} {
		if path == "" {
			continue
		}
		f, createErr := os.Create(path)
		if createErr != nil {
			return fmt.Errorf("create a profile: %w", createErr)
		}
		*w = f
		defer func() { err = errors.Join(err, f.Close()) }() //nolint:gocritic // at most two profiles, open until the end
	}
	report, err := bench.Measure(cmd.Context(), b.workload, b.config)
	if err != nil {
		return err
	}
	return b.out.Print(cmd.OutOrStdout(), report, report.WriteTable)
}

// load loads the store and waits to be killed, or for the end of its input, which is the end
// of the process that started it.
func (b *benchVerb) load(cmd *cobra.Command) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, cmd.InOrStdin())
		cancel()
	}()
	return bench.Load(ctx, b.workload.(bench.Loader), b.config, func() { fmt.Fprintln(cmd.OutOrStdout(), bench.LoadedLine) })
}

// divide runs this program several times at once, each with its part of the clients and of
// the orchestrations.
func (b *benchVerb) divide(cmd *cobra.Command, stderr io.Writer) error {
	n := b.processes
	switch {
	case b.config.URL == "":
		return console.Usage("--processes needs a --store that several processes can open: postgres, redis or sqlite")
	case n < 1 || n > bench.MaxProcesses:
		return console.Usage("--processes is %d; 1 to %d is allowed", n, bench.MaxProcesses)
	}
	for _, name := range []string{"cpuprofile", "memprofile"} {
		if cmd.Flags().Changed(name) {
			return console.Usage("--%s is of one process: leave out --processes", name)
		}
	}
	if err := b.config.Validate(b.workload); err != nil {
		return err
	}
	report, err := bench.Processes(cmd.Context(), n, func(ctx context.Context, i int) (*exec.Cmd, error) {
		args := []string{"--json", fmt.Sprintf("--clients=%d", part(cmd, "clients", n, i))}
		if all := part(cmd, "n", n, i); all > 0 {
			args = append(args, fmt.Sprintf("--n=%d", all))
		}
		return b.command(ctx, cmd, stderr, args, "processes", "clients", "n", "quiet", "output", "json")
	})
	if err != nil {
		return err
	}
	return b.out.Print(cmd.OutOrStdout(), report, report.WriteTable)
}

// command returns this command again, quiet, with the flags that were given but for some, and
// with other ones. The URL is in the environment: arguments can be seen by others.
func (b *benchVerb) command(ctx context.Context, cmd *cobra.Command, stderr io.Writer, more []string, without ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"bench", b.spec.Name, "--quiet"}, more...)
	skip := map[string]bool{"store": true, "quiet": true}
	for _, name := range without {
		skip[name] = true
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !skip[f.Name] {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	child := exec.CommandContext(ctx, program, args...)
	child.Env = append(os.Environ(), connect.EnvStore+"="+b.config.URL)
	child.Stderr = stderr
	return child, nil
}

// part returns how many of the number that a flag gives are those of process i of n: about as
// many as those of every other, and at least one unless all are none.
func part(cmd *cobra.Command, flag string, n, i int) int {
	var all int
	_, _ = fmt.Sscan(cmd.Flags().Lookup(flag).Value.String(), &all) // it is a number
	if all == 0 {
		return 0
	}
	share := all / n
	if i < all%n {
		share++
	}
	return max(share, 1)
}

// inTurn is a writer that several goroutines and processes write to at once.
type inTurn struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *inTurn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
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
