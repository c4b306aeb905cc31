package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

// RawDB is the engine below a store, without the store: it shows what the store adds.
type RawDB interface {
	// Turn writes the same keys and values as the store does for tx, the turn of an
	// instance, in one batch, and returns when they are synced: the message of the
	// turn before deleted, the entries, the record and the next message. Instances are
	// counted from 0. It is called concurrently for different instances, and in order
	// for each.
	Turn(instance int, tx *store.Tx) error

	// Close gives back what the engine holds.
	Close() error
}

// rawRun is an open engine and how far its instances are.
type rawRun struct {
	opts  *Options
	db    RawDB
	dir   string
	keys  []store.Key // by instance
	turns []int       // by instance; each belongs to one committer
}

// openRaw opens the engine in a new folder beside the store, so that both use the
// same disk.
func (r *run) openRaw() (*rawRun, error) {
	dir, err := os.MkdirTemp(r.opts.RawParent, "abide-bench-raw-")
	if err != nil {
		return nil, fmt.Errorf("bench: make a folder for the raw engine: %w", err)
	}
	db, err := r.opts.OpenRaw(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("bench: open the raw engine: %w", err)
	}
	raw := &rawRun{opts: r.opts, db: db, dir: dir, turns: make([]int, r.state.Instances)}
	for i := range raw.turns {
		raw.keys = append(raw.keys, instanceKeys.key(r.opts.Keys, i))
	}
	return raw, nil
}

// close removes the engine and its folder. Nothing in it is of use to anybody.
func (r *rawRun) close() {
	_ = r.db.Close()
	_ = os.RemoveAll(r.dir)
}

// commitTurns does what the store's does, without claims: the instances are divided
// among the committers.
func (r *rawRun) commitTurns(ctx context.Context, d time.Duration, limit int64, done *atomic.Int64) (*sample, error) {
	var taken atomic.Int64
	timeUp := make(chan struct{})
	latencies := make([]Histogram, r.opts.Committers)
	s := &sample{}
	before := done.Load()

	c := newCrew(ctx)
	watch := startWatch()
	if d > 0 {
		defer time.AfterFunc(d, func() { close(timeUp) }).Stop()
	}
	for i := range latencies {
		c.do(func(ctx context.Context) error {
			turn := newTurn()
			for instance := i; limit == 0 || taken.Add(1) <= limit; instance += r.opts.Committers {
				select {
				case <-timeUp:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				default:
				}
				if instance >= len(r.turns) {
					instance = i
				}
				claim := store.Claim{
					Key:       r.keys[instance],
					Route:     turnRoutes[instance%len(turnRoutes)],
					LogLength: r.turns[instance] * EntriesPerTurn,
				}
				tx := turn.of(&claim)
				began := time.Now()
				if err := r.db.Turn(instance, tx); err != nil {
					return fmt.Errorf("bench: commit a raw turn: %w", err)
				}
				latencies[i].Record(time.Since(began))
				r.turns[instance]++
				done.Add(1)
			}
			return nil
		})
	}
	err := c.wait()
	watch.stop(s)
	if err != nil {
		return nil, err
	}
	s.count = done.Load() - before
	for i := range latencies {
		s.latency.Merge(&latencies[i])
	}
	return s, nil
}
