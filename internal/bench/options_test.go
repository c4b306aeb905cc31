package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// small returns options for a run that is over at once.
func small(url string) Options {
	return Options{
		Store: url, Workload: WorkloadCommit, Keys: KeysOrdered,
		Committers: 4, Claimers: 2, Instances: 10, Rounds: 1, Commits: 100,
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	raw := func(string) (RawDB, error) { return nil, errors.New("not opened") }
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no store", func(o *Options) { o.Store = "" }, "no store"},
		{"workload", func(o *Options) { o.Workload = "read" }, "known are: commit, claim"},
		{"keys", func(o *Options) { o.Keys = "sorted" }, "known are: ordered, random"},
		{"reopen", func(o *Options) { o.Reopen = "gently" }, "known are: clean, crash"},
		{"no committers", func(o *Options) { o.Committers = 0 }, "allowed are 1 to 10000"},
		{"too many committers", func(o *Options) { o.Committers = 10_001 }, "allowed are 1 to 10000"},
		{"no claimers", func(o *Options) { o.Claimers = 0 }, "allowed are 1 to 10000"},
		{"few instances", func(o *Options) { o.Instances = 3 }, "each committer needs an instance"},
		{"negative duration", func(o *Options) { o.Duration = -1 }, "must not be negative"},
		{"negative commits", func(o *Options) { o.Commits = -1 }, "must not be negative"},
		{"negative pending", func(o *Options) { o.Pending = -1 }, "must not be negative"},
		{"negative consumed", func(o *Options) { o.Consumed = -1 }, "must not be negative"},
		{"negative idle", func(o *Options) { o.Idle = -time.Second }, "must not be negative"},
		{"no rounds", func(o *Options) { o.Rounds = 0 }, "allowed are 1 and more"},
		{"no end", func(o *Options) { o.Commits = 0 }, "neither duration nor commits"},
		{"consumed turns", func(o *Options) { o.Consumed = 1 }, "for the workload claim"},
		{"raw claims", func(o *Options) { o.OpenRaw, o.Workload = raw, WorkloadClaim }, "for the workload commit"},
		{"many rounds", func(o *Options) { o.OpenRaw, o.Rounds = raw, 101 }, "each round needs a commit"},
		{"reopen memory", func(o *Options) { o.Reopen = ReopenClean }, "does not outlive its process"},
		{"crash without a command", func(o *Options) { o.Store, o.Reopen = "other://", ReopenCrash }, "needs a command"},
		{"unknown scheme", func(o *Options) { o.Store = "unknown://" }, `unknown scheme "unknown"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := small("memory://")
			tt.change(&o)
			_, err := Run(t.Context(), o)
			if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrOptions with %q", err, tt.want)
			}
		})
	}
}
