package workers

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"

	_ "github.com/abidehq/abide/remote" // abide: URLs
)

// workload is the options of a run.
type workload struct {
	n       int
	connect string // URL of a server: this is the process of the workers

	server *stack
}

var _ bench.Workload = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "workers",
		Short: "Measure what idle workers cost their server",
		Long: `Measure what idle workers cost their server.

A server, with its API, metrics and page, is in this process, and its workers are in another
one, each with a connection of its own. When all of them are connected, the CPU and the memory
of this process are measured while nothing is to be done. Then as many orchestrations are run
as there are workers, and must end.`,
		Example: `  abide bench workers
  abide bench workers --n 5000 --idle 2m --json`,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			w := &workload{}
			f.IntVar(&w.n, "n", 1000, "workers")
			c.IdleFlag(f, 60*time.Second, "measure the CPU for so long while nothing happens")
			f.StringVar(&w.connect, "connect", "", "be the process of the workers, of the server at this URL")
			f.Lookup("connect").Hidden = true
			return w
		},
	}
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return "workers" }

// Validate implements [bench.Workload].
func (w *workload) Validate(*bench.Config) error {
	return cmp.Or(bench.Within("n", w.n, 1, 10_000))
}

// Open implements [bench.Workload].
func (w *workload) Open(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	if w.connect != "" {
		return func() error { return nil }, nil
	}
	if w.server, err = openStack(ctx, r.Store, r.Logger, r.Fail); err != nil {
		return nil, err
	}
	return w.server.close, nil
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	if w.connect != "" {
		return w.work(ctx, r)
	}
	r.Report.Add("n", w.n)
	r.Report.Add("goroutines_before", runtime.NumGoroutine())
	began := time.Now()
	r.Progress.Say("connecting %d workers", w.n)
	stop, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r.Report.Add("connect_s", time.Since(began))
	if err := r.MeasureIdle(ctx, nil); err != nil {
		return err
	}
	r.MarkMemory()
	r.Report.Add("goroutines", runtime.NumGoroutine())
	return w.runAll(ctx, r)
}

// connectedLine is what the process of the workers prints when all of them are connected.
const connectedLine = "connected"

// start starts the process of the workers, and returns when all of them are connected. It ends when its input
// does.
func (w *workload) start(ctx context.Context) (stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "bench", "workers", "--quiet", "--store", "memory://", "--connect", w.server.url, "--n", strconv.Itoa(w.n))
	cmd.Stderr = os.Stderr
	input, inErr := cmd.StdinPipe()
	output, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, fmt.Errorf("bench: start the process of the workers: %w", err)
	}
	stop = func() {
		_ = input.Close()
		_ = cmd.Wait() // it has been told to end
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != connectedLine {
		stop()
		return nil, cmp.Or(ctx.Err(), errors.New("bench: the workers do not connect"))
	}
	return stop, nil
}

// work is what the process of the workers does.
func (w *workload) work(ctx context.Context, r *bench.Run) error {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	engines := make([]*abide.Engine, w.n)
	var connecting errgroup.Group
	connecting.SetLimit(16)
	for i := range engines {
		connecting.Go(func() (err error) {
			engines[i], err = abide.Open(ctx, abide.Config{
				Store: w.connect, Register: []abide.Definition{greet, name}, Logger: r.Logger, WorkerName: fmt.Sprint(bench.Prefix, i),
			})
			return err
		})
	}
	if err := connecting.Wait(); err != nil {
		return err
	}
	fmt.Println(connectedLine)
	select {
	case <-ended:
	case <-ctx.Done():
	}
	var closing errgroup.Group
	for _, e := range engines {
		closing.Go(e.Close)
	}
	return closing.Wait()
}

// name and greet are what the workers run.
var (
	name = abide.NewActivity(bench.Prefix+"name", func(_ context.Context, i int) (string, error) { return fmt.Sprint(i), nil })

	greet = abide.NewOrchestration(bench.Prefix+"greet", func(ctx abide.Context, i int) (string, error) { return name.Call(ctx, i) })
)

// runAll has the workers run orchestrations.
func (w *workload) runAll(ctx context.Context, r *bench.Run) error {
	connected, err := w.server.engine.Workers(ctx)
	if err != nil {
		return err
	}
	if len(connected) < w.n {
		return fmt.Errorf("bench: %d of %d workers are connected", len(connected), w.n)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(64)
	for i := range w.n {
		all.Go(func() error {
			run, err := greet.Start(ctx, w.server.engine, i, abide.Tenant(bench.Name))
			if err != nil {
				return fmt.Errorf("bench: start: %w", err)
			}
			if result, err := run.Result(ctx); err != nil || result != fmt.Sprint(i) {
				return fmt.Errorf("bench: orchestration %d has returned %q: %w", i, result, err)
			}
			return nil
		})
	}
	return all.Wait()
}
