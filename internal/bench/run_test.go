package bench_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
)

// nothing is a workload that does nothing.
type nothing struct{}

func (nothing) Name() string                              { return "nothing" }
func (nothing) Validate(*bench.Config) error              { return nil }
func (nothing) Measure(context.Context, *bench.Run) error { return nil }
func (nothing) Open(context.Context, *bench.Run) (func() error, error) {
	return func() error { return nil }, nil
}

// loader is one that loads nothing.
type loader struct{ nothing }

func (loader) Load(context.Context, *bench.Run) error   { return nil }
func (loader) Verify(context.Context, *bench.Run) error { return nil }

func spec(w bench.Workload) bench.Spec {
	return bench.Spec{Name: w.Name(), New: func(*pflag.FlagSet, *bench.Config) bench.Workload { return w }}
}

func TestConfigThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]bench.Config{
		"no --store":                           {},
		`unknown scheme "unknown"`:             {URL: "unknown://"},
		"--idle is -1ns: must not be negative": {URL: "memory://", Idle: -1},
		"--warmup is -1ns: must not be negat":  {URL: "memory://", Warmup: -1},
		"does not outlive its process":         {URL: "memory://", Reopen: bench.ReopenClean},
		"needs a command":                      {URL: "other://", Reopen: bench.ReopenCrash},
		"another process loads the store":      {URL: "other://", Reopen: bench.ReopenCrash, ProfileLoad: true},
	} {
		if err := benchtest.Fails(t, spec(loader{}), c, "", want); !errors.Is(err, bench.ErrOptions) {
			t.Errorf("%v is not ErrOptions", err)
		}
	}
	_ = benchtest.Fails(t, spec(nothing{}), bench.Config{URL: "other://", Reopen: bench.ReopenClean}, "", "needs a workload that loads")
}

func TestALoaderThatFails(t *testing.T) {
	t.Parallel()
	c := bench.Config{URL: benchtest.URL(t, "shared"), Reopen: bench.ReopenCrash}
	c.LoadCommand = func(ctx context.Context) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, "sh", "-c", "exit 7"), nil
	}
	_ = benchtest.Fails(t, spec(loader{}), c, "", "exit status 7")
}

func TestProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	var cpu, mem strings.Builder
	benchtest.Run(t, spec(nothing{}), bench.Config{URL: "memory://", CPUProfile: &cpu, MemProfile: &mem}, "")
	if cpu.Len() == 0 || mem.Len() == 0 {
		t.Errorf("the profiles have %d and %d bytes", cpu.Len(), mem.Len())
	}
}

// profiled is a loader that looks at the profile when it loads.
type profiled struct {
	loader
	began *bool
}

func (p profiled) Load(context.Context, *bench.Run) error {
	*p.began = pprof.StartCPUProfile(io.Discard) != nil // there is one at a time
	if !*p.began {
		pprof.StopCPUProfile()
	}
	return nil
}

func TestProfilesBeginWithLoadingIfThatIsAskedFor(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	for _, want := range []bool{false, true} {
		var cpu strings.Builder
		began := !want
		benchtest.Run(t, spec(profiled{began: &began}), bench.Config{URL: "memory://", CPUProfile: &cpu, ProfileLoad: want}, "")
		if began != want || cpu.Len() == 0 {
			t.Errorf("the profile has begun before the load: %v, want %v; it has %d bytes", began, want, cpu.Len())
		}
	}
}
