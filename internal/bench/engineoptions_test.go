package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// tiny returns options for a run of an engine that is over at once.
func tiny(url string, w Workload) EngineOptions {
	return EngineOptions{
		Store: url, Workload: w, N: 5, Clients: 2, Length: 3, Width: 4,
		Over: 20 * time.Millisecond, Patience: 20 * time.Second,
	}
}

func TestEngineOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		workload Workload
		change   func(*EngineOptions)
		want     string
	}{
		{"no store", WorkloadHello, func(o *EngineOptions) { o.Store = "" }, "no --store"},
		{"workload of a store", WorkloadCommit, func(*EngineOptions) {}, "known are: hello, sequence, fanout, sleep, events, idle"},
		{"negative n", WorkloadHello, func(o *EngineOptions) { o.N = -1 }, "--n is -1: must not be negative"},
		{"negative duration", WorkloadHello, func(o *EngineOptions) { o.Duration = -1 }, "--duration is -1ns: must not be negative"},
		{"no end", WorkloadIdle, func(o *EngineOptions) { o.N = 0 }, "neither --n nor --duration"},
		{"no clients", WorkloadHello, func(o *EngineOptions) { o.Clients = 0 }, "--clients is 0; allowed are 1 to 10000"},
		{"many clients", WorkloadHello, func(o *EngineOptions) { o.Clients = 10_001 }, "--clients is 10001; allowed are 1 to 10000"},
		{"no length", WorkloadSequence, func(o *EngineOptions) { o.Length = 0 }, "--length is 0; allowed are 1 to 10000"},
		{"many events", WorkloadEvents, func(o *EngineOptions) { o.Length = 10_001 }, "--length is 10001; allowed are 1 to 10000"},
		{"no width", WorkloadFanout, func(o *EngineOptions) { o.Width = 0 }, "--width is 0; allowed are 1 to 10000"},
		{"nobody sleeps", WorkloadSleep, func(o *EngineOptions) { o.N = 0 }, "--n is 0; allowed are 1 to 10000000"},
		{"over", WorkloadSleep, func(o *EngineOptions) { o.Over = 0 }, "--over is 0s; allowed are"},
		{"lead", WorkloadSleep, func(o *EngineOptions) { o.Lead = -time.Second }, "--lead is -1s; allowed are 0 to 24h0m0s"},
		{"idle", WorkloadSleep, func(o *EngineOptions) { o.Idle = -time.Second }, "--idle is -1s: must not be negative"},
		{"reopen", WorkloadSleep, func(o *EngineOptions) { o.Reopen = "gently" }, `--reopen is "gently"; known are: clean, crash`},
		{"reopen memory", WorkloadSleep, func(o *EngineOptions) { o.Reopen = ReopenClean }, "does not outlive its process"},
		{"crash without a command", WorkloadSleep, func(o *EngineOptions) { o.Store, o.Reopen = "other://", ReopenCrash }, "needs a command"},
		{"scheme", WorkloadHello, func(o *EngineOptions) { o.Store = "unknown://" }, `unknown scheme "unknown"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tiny("memory://", tt.workload)
			tt.change(&o)
			_, err := RunEngine(t.Context(), o)
			if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrOptions with %q", err, tt.want)
			}
		})
	}
}
