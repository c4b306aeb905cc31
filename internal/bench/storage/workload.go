package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
)

// Names of the workloads.
const (
	commit = "commit"
	claim  = "claim"
)

// workload is the options of a run.
type workload struct {
	name       string
	committers int
	claimers   int
	instances  int
	keys       string
	duration   time.Duration
	commits    int64
	pending    int
	consumed   int
	raw        bool
	rounds     int
	flags      *pflag.FlagSet

	state state // of the store that is loaded
}

var _ bench.Loader = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "store",
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
		NeedsStore: true,
		New:        newWorkload,
	}
}

func newWorkload(f *pflag.FlagSet, c *bench.Config) bench.Workload {
	w := &workload{flags: f}
	f.StringVar(&w.name, "workload", commit, "what to measure: commit or claim")
	f.IntVar(&w.committers, "committers", 64, "goroutines that commit")
	f.IntVar(&w.claimers, "claimers", 1, "goroutines that claim for them")
	f.IntVar(&w.instances, "instances", 10_000, "instances that turns are committed for")
	f.StringVar(&w.keys, "keys", keysOrdered, "names of the keys: ordered by time, or random")
	f.DurationVar(&w.duration, "duration", 10*time.Second, "how long to measure; without end if --commits is given")
	f.Int64Var(&w.commits, "commits", 0, "end after so many commits, or claims with --workload claim")
	f.IntVar(&w.pending, "pending", 0, "messages in the queue that are not visible yet")
	f.IntVar(&w.consumed, "consumed", 0, "with --workload claim: messages to consume before measuring again")
	c.IdleFlag(f, 0, "measure the CPU of an idle process for so long")
	c.ReopenFlag(f)
	f.BoolVar(&w.raw, "raw", false, "also measure the engine below the store, in turns with it")
	f.IntVar(&w.rounds, "rounds", 3, "with --raw: how often to take turns")
	c.WarmupFlag(f)
	return w
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return w.name }

// Validate implements [bench.Workload].
func (w *workload) Validate(c *bench.Config) error {
	if w.commits > 0 && !w.flags.Changed("duration") {
		w.duration = 0
	}
	switch {
	case w.name != commit && w.name != claim:
		return bench.Invalid("unknown workload %q; known are: commit, claim", w.name)
	case w.keys != keysOrdered && w.keys != keysRandom:
		return bench.Invalid("unknown order of keys %q; known are: ordered, random", w.keys)
	}
	err := cmp.Or(
		bench.Within("committers", w.committers, 1, store.MaxClaim),
		bench.Within("claimers", w.claimers, 1, store.MaxClaim),
		bench.NotNegative("duration", w.duration),
		bench.NotNegative("commits", w.commits),
		bench.NotNegative("pending", w.pending),
		bench.NotNegative("consumed", w.consumed),
		bench.Within("rounds", w.rounds, 1, 1000),
	)
	switch {
	case err != nil:
		return err
	case w.instances < w.committers:
		return bench.Invalid("--instances is %d and --committers %d: each committer needs an instance", w.instances, w.committers)
	case w.duration == 0 && w.commits == 0:
		return bench.Invalid("neither --duration nor --commits ends the measurement")
	case w.consumed > 0 && w.name != claim:
		return bench.Invalid("--consumed is for the workload %s; this one is %s", claim, w.name)
	case !w.raw && w.flags.Changed("rounds"):
		return bench.Invalid("--rounds says how often to take turns with the raw engine: it needs --raw")
	case w.raw && w.name != commit:
		return bench.Invalid("--raw is for the workload %s; this one is %s", commit, w.name)
	case w.raw && w.commits > 0 && w.commits < int64(w.rounds):
		return bench.Invalid("--commits is %d and --rounds %d: each round needs a commit", w.commits, w.rounds)
	case w.raw:
		return checkRaw(c.URL)
	}
	return nil
}

// Open implements [bench.Workload].
func (w *workload) Open(context.Context, *bench.Run) (func() error, error) {
	return func() error { return nil }, nil
}

// Verify implements [bench.Loader].
func (w *workload) Verify(ctx context.Context, r *bench.Run) error {
	st, _, err := readState(ctx, r.Store)
	switch {
	case err != nil:
		return err
	case st.Pending < w.pending:
		return bench.Lost(st.Pending, w.pending, "messages are pending")
	case w.name == commit && st.Instances < w.instances:
		return bench.Lost(st.Instances, w.instances, "instances are there")
	}
	w.state = st
	return nil
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	pending, _, err := r.Messages(ctx, func(q, _ string) bool { return q == queue })
	if err != nil {
		return err
	}
	r.Report.Add("keys", w.keys)
	if w.name == commit {
		r.Report.Add("committers", w.committers)
		r.Report.Add("claimers", w.claimers)
		r.Report.Add("instances", w.state.Instances)
	}
	r.Report.Add("pending", max(pending-w.state.Instances, 0)) // each instance has a message, too
	err = r.MeasureIdle(ctx, func(ctx context.Context, d time.Duration) error { return w.idle(ctx, r, d) })
	if err != nil {
		return err
	}
	switch {
	case w.name == claim:
		return w.measureClaims(ctx, r)
	case w.raw:
		return w.compareCommits(ctx, r)
	}
	s, claims, err := w.commitTurns(ctx, r, w.duration, w.commits)
	if err != nil {
		return err
	}
	reportCommits(r, s, claims)
	return nil
}

// idle has one claim wait.
func (w *workload) idle(ctx context.Context, r *bench.Run, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		claims, err := r.Store.Claim(ctx, store.ClaimRequest{
			Queue: queue, Routes: []string{idleRoute}, Max: 1, Lease: lease, Wait: time.Until(until),
		})
		if err == nil && len(claims) > 0 { // of a store that was loaded long ago
			err = r.Store.Commit(ctx, finish(claims...))
		}
		if err != nil {
			return fmt.Errorf("bench: wait while idle: %w", err)
		}
	}
	return nil
}

// pendingID is the ID of messages that are not visible yet: it tells them from an instance's.
const pendingID = "due"

// Load implements [bench.Loader]: messages that are not visible yet, and, for turns,
// instances.
func (w *workload) Load(ctx context.Context, r *bench.Run) error {
	st, found, err := readState(ctx, r.Store)
	if err != nil {
		return err
	}
	switch {
	case !found:
		st.Keys = w.keys
	case st.Keys != w.keys:
		return bench.Invalid("the store was loaded with %s keys, and %s ones are asked for: use another store", st.Keys, w.keys)
	default:
		r.Progress.Say("using the store as it is: %d instances, %d pending messages", st.Instances, st.Pending)
	}
	if st.Pending < w.pending {
		if err := w.loadPending(ctx, r, st.Pending); err != nil {
			return err
		}
		st.Pending = w.pending
	}
	if w.name == commit && st.Instances < w.instances {
		l := bench.Loading{Doing: "loading", Unit: "instances", From: st.Instances, To: w.instances}
		if err := put(ctx, r, l, func(i int) store.Message { return firstMessage(w.keys, i) }); err != nil {
			return err
		}
		st.Instances = w.instances
	}
	w.state = st
	return st.write(ctx, r.Store)
}

func (w *workload) loadPending(ctx context.Context, r *bench.Run, from int) error {
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	l := bench.Loading{Doing: "loading", Unit: "pending messages", From: from, To: w.pending}
	s, err := bench.Timed(int64(w.pending-from), func() error {
		return put(ctx, r, l, func(i int) store.Message {
			return store.Message{
				Key:       pendingKeys.key(w.keys, i),
				ID:        pendingID,
				Route:     allRoutes[i%len(allRoutes)],
				VisibleAt: bench.Far(stats.Now, i),
				Body:      bench.Bytes(uint64(i), messageBytes),
			}
		})
	})
	r.Report.Add("loaded", s.Count)
	r.Report.Add("loaded_per_s", s.Rate())
	return err
}

// put puts messages, a batch in a commit.
func put(ctx context.Context, r *bench.Run, l bench.Loading, message func(i int) store.Message) error {
	return r.Batches(ctx, l, func(ctx context.Context, from, to int) error {
		messages := make([]store.Message, 0, to-from)
		for i := from; i < to; i++ {
			messages = append(messages, message(i))
		}
		return r.Store.Commit(ctx, &store.Tx{Put: messages})
	})
}

// state is what a store was loaded with. It is a record in the store itself, so that
// the next run need not load it again. It is written once the loading is done: an
// interrupted one is done again, and puts what is there already without effect.
type state struct {
	Keys string `json:"keys"`

	// Instances is the number of instances that have a message which makes their
	// next turn.
	Instances int `json:"instances"`

	// Pending is how many messages were put that are not visible yet. They become
	// visible some day: so many there are at most.
	Pending int `json:"pending"`
}

var stateKey = store.RecordKey{Kind: kind, Tenant: tenant, ID: "state"}

// readState reports false if the store was never loaded.
func readState(ctx context.Context, s store.Store) (st state, found bool, err error) {
	record, err := s.Get(ctx, stateKey)
	if errors.Is(err, store.ErrNotFound) {
		return state{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(record.Body, &st)
	}
	if err != nil {
		return state{}, false, fmt.Errorf("bench: read record %v: %w", stateKey, err)
	}
	return st, true, nil
}

func (st state) write(ctx context.Context, s store.Store) error {
	body, err := json.Marshal(st)
	if err == nil {
		err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
			Expect: store.AnyVersion,
			Record: store.Record{Key: stateKey, Status: "loaded", Name: "bench", Time: startedAt, Body: body},
		}}})
	}
	if err != nil {
		return fmt.Errorf("bench: write record %v: %w", stateKey, err)
	}
	return nil
}
