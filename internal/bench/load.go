package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

const (
	// loaders is how many goroutines load, and batch how much each puts with one
	// commit.
	loaders = 8
	batch   = 1000

	// Messages that are not visible yet become so within dueSpread, beginning after
	// dueDelay, which is longer than a run.
	dueDelay  = time.Hour
	dueSpread = 7 * 24 * time.Hour

	// pendingID is the ID of these messages: it tells them from an instance's.
	pendingID = "due"
)

// load brings the store to what the options ask for: messages that are not visible
// yet, and, for turns, instances.
func (r *run) load(ctx context.Context) error {
	st, found, err := readState(ctx, r.store)
	if err != nil {
		return err
	}
	switch {
	case !found:
		st.Keys = r.opts.Keys
		if err := sayIfUsed(ctx, r.store, r.opts.Progress); err != nil {
			return err
		}
	case st.Keys != r.opts.Keys:
		return invalid("the store was loaded with %s keys, and %s ones are asked for: use another store", st.Keys, r.opts.Keys)
	default:
		r.opts.Progress.Say("using the store as it is: %s instances, %s pending messages",
			grouped(int64(st.Instances)), grouped(int64(st.Pending)))
	}
	if st.Pending < r.opts.Pending {
		if err := r.loadPending(ctx, st.Pending); err != nil {
			return err
		}
		st.Pending = r.opts.Pending
	}
	if r.opts.Workload == WorkloadCommit && st.Instances < r.opts.Instances {
		first := func(i int) store.Message { return firstMessage(st.Keys, i) }
		if err := r.putAll(ctx, "instances", st.Instances, r.opts.Instances, first); err != nil {
			return err
		}
		st.Instances = r.opts.Instances
	}
	r.state = st
	return st.write(ctx, r.store)
}

// sayIfUsed warns a person who measures a store that serves something else.
func sayIfUsed(ctx context.Context, s store.Store, p *Progress) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return fmt.Errorf("bench: look at the store: %w", err)
	}
	if len(stats.Routes) > 0 {
		p.Say("the store holds messages of somebody else; they stay untouched, and may change the figures")
	}
	return nil
}

func (r *run) loadPending(ctx context.Context, from int) error {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return fmt.Errorf("bench: learn the store's time: %w", err)
	}
	start := stats.Now.Add(dueDelay)
	pending := func(i int) store.Message {
		// Scrambled, because timers are not set in the order in which they are due.
		after := scramble(uint64(i)) % uint64(dueSpread/time.Millisecond)
		return store.Message{
			Key:       pendingKeys.key(r.opts.Keys, i),
			ID:        pendingID,
			Route:     allRoutes[i%len(allRoutes)],
			VisibleAt: start.Add(time.Duration(after) * time.Millisecond),
			Body:      payload(uint64(i), MessageBytes),
		}
	}
	began := time.Now()
	if err := r.putAll(ctx, "pending messages", from, r.opts.Pending, pending); err != nil {
		return err
	}
	r.loaded, r.loadTook = int64(r.opts.Pending-from), time.Since(began)
	return nil
}

// putAll puts the messages with numbers from up to but not including to.
func (r *run) putAll(ctx context.Context, what string, from, to int, message func(i int) store.Message) error {
	return inBatches(ctx, r.opts.Progress, what, from, to, func(ctx context.Context, from, to int) error {
		messages := make([]store.Message, 0, batch)
		for i := from; i < to; i++ {
			messages = append(messages, message(i))
		}
		return r.store.Commit(ctx, &store.Tx{Put: messages})
	})
}

// inBatches has loaders load the numbers from up to but not including to, a batch at a
// time, and says how it goes.
func inBatches(ctx context.Context, p *Progress, what string, from, to int, load func(ctx context.Context, from, to int) error) error {
	var next, done atomic.Int64
	next.Store(int64(from))
	stop := p.Watch("loading", what, int64(to-from), done.Load)
	began := time.Now()
	c := newCrew(ctx)
	for range loaders {
		c.do(func(ctx context.Context) error {
			for {
				end := int(next.Add(batch))
				first, last := end-batch, min(end, to)
				if first >= last {
					return nil
				}
				if err := load(ctx, first, last); err != nil {
					return fmt.Errorf("bench: load %s: %w", what, err)
				}
				done.Add(int64(last - first))
			}
		})
	}
	err := c.wait()
	stop()
	if err == nil {
		took := time.Since(began)
		p.Say("loaded %s %s in %.1f s, %s/s", grouped(done.Load()), what, took.Seconds(),
			grouped(int64(float64(done.Load())/took.Seconds())))
	}
	return err
}
