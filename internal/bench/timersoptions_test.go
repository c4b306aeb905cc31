package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/timer"
)

// fewTimers returns options for a run that is over soon.
func fewTimers(url string) TimersOptions {
	return TimersOptions{
		Store: url, Clients: 4, Duration: 5 * time.Millisecond, N: 200, Over: 20 * time.Millisecond,
		Bulk: 50, Tenants: 3, Payload: 16, Patience: 20 * time.Second,
	}
}

func TestTimersOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*TimersOptions)
		want   string
	}{
		{"no store", func(o *TimersOptions) { o.Store = "" }, "no --store"},
		{"scheme", func(o *TimersOptions) { o.Store = "unknown://" }, `unknown scheme "unknown"`},
		{"pending", func(o *TimersOptions) { o.Pending = -1 }, "--pending is -1; allowed are 0 to 100000000"},
		{"clients", func(o *TimersOptions) { o.Clients = 0 }, "--clients is 0; allowed are 1 to 10000"},
		{"no timers", func(o *TimersOptions) { o.N = 0 }, "--n is 0; allowed are 1 to 10000000"},
		{"herd", func(o *TimersOptions) { o.Herd = 10_000_001 }, "--herd is 10000001; allowed are 0 to 10000000"},
		{"bulk", func(o *TimersOptions) { o.Bulk = timer.MaxBulk + 1 }, "--bulk is 10001; allowed are 1 to 10000"},
		{"tenants", func(o *TimersOptions) { o.Tenants = 0 }, "--tenants is 0; allowed are 1 to 10000"},
		{"payload", func(o *TimersOptions) { o.Payload = 65_537 }, "--payload is 65537; allowed are 0 to 65536"},
		{"large commits", func(o *TimersOptions) { o.Payload, o.Bulk = 65_536, 1000 }, "--bulk is 1000 and --payload 65536: that is about"},
		{"duration", func(o *TimersOptions) { o.Duration = -1 }, "--duration is -1ns: must not be negative"},
		{"over", func(o *TimersOptions) { o.Over = 0 }, "--over is 0s; allowed are"},
		{"lead", func(o *TimersOptions) { o.Lead = -time.Second }, "--lead is -1s; allowed are 0 to 24h0m0s"},
		{"idle", func(o *TimersOptions) { o.Idle = -time.Second }, "--idle is -1s: must not be negative"},
		{"reopen", func(o *TimersOptions) { o.Reopen = "gently" }, `--reopen is "gently"; known are: clean, crash`},
		{"reopen nothing", func(o *TimersOptions) { o.Store, o.Reopen = "other://", ReopenClean }, "it needs --pending"},
		{"reopen memory", func(o *TimersOptions) { o.Pending, o.Reopen = 1, ReopenClean }, "does not outlive its process"},
		{"crash without a command", func(o *TimersOptions) { o.Store, o.Pending, o.Reopen = "other://", 1, ReopenCrash }, "needs a command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := fewTimers("memory://")
			tt.change(&o)
			_, err := RunTimers(t.Context(), o)
			if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrOptions with %q", err, tt.want)
			}
		})
	}
}
