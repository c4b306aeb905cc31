package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/action"
)

// adders is how many goroutines add actions: each commit is one action, and they share
// syncs.
const adders = 256

// request returns what adds an action.
func (r *actionsRun) request(i int, at time.Time) action.Request {
	return action.Request{Tenant: tenant, Slug: tenant, Target: actionsTarget, ID: r.id(i), At: at}
}

// addAll adds the actions with numbers from up to but not including to.
func (r *actionsRun) addAll(ctx context.Context, from, to int, at func(i int) time.Time) error {
	var next, done atomic.Int64
	next.Store(int64(from))
	defer r.opts.Progress.Watch("adding", "actions", int64(to-from), done.Load)()
	c := newCrew(ctx)
	for range min(adders, to-from) {
		c.do(func(ctx context.Context) error {
			for {
				i := int(next.Add(1)) - 1
				if i >= to {
					return nil
				}
				if _, _, err := r.service.Add(ctx, r.request(i, at(i))); err != nil {
					return fmt.Errorf("bench: add an action: %w", err)
				}
				done.Add(1)
			}
		})
	}
	return c.wait()
}

// pending has the store hold actions that are not due in the run, and reports what they
// cost.
func (r *actionsRun) pending(ctx context.Context) error {
	if r.opts.Pending == 0 {
		return nil
	}
	there, due, err := r.waiting(ctx)
	if err != nil {
		return err
	}
	if missing := r.opts.Pending - (there - due); missing > 0 {
		start := time.Now().Add(nightfall)
		began := time.Now()
		err := r.addAll(ctx, r.opts.N, r.opts.N+missing, func(i int) time.Time {
			// Scrambled, because actions are not added in the order in which they are due.
			return start.Add(time.Duration(scramble(uint64(i))%uint64(dueSpread/time.Millisecond)) * time.Millisecond)
		})
		if err != nil {
			return err
		}
		took := time.Since(began)
		rate := float64(missing) / took.Seconds()
		r.opts.Progress.Say("added %s actions in %.1f s, %s/s", grouped(int64(missing)), took.Seconds(), grouped(int64(rate)))
		r.report.count(figLoaded, int64(missing))
		r.report.number(figLoadRate, rate)
	} else {
		r.opts.Progress.Say("using the store as it is: %s pending actions", grouped(int64(there)))
	}
	r.rss, _ = memory()
	if there, _, err = r.waiting(ctx); err != nil {
		return err
	}
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	r.report.count(figActionsPending, int64(there))
	if stats.Bytes > 0 {
		r.report.number(figActionDisk, float64(stats.Bytes)/float64(there))
	}
	return nil
}

// measureTicks makes ticks while nothing is due.
func (r *actionsRun) measureTicks(ctx context.Context) error {
	if _, due, err := r.waiting(ctx); err != nil || due > 0 {
		if err == nil {
			err = fmt.Errorf("bench: %d actions of an earlier run are due: use another store", due)
		}
		return err
	}
	h := &Histogram{}
	for range r.opts.Ticks {
		began := time.Now()
		if err := r.service.Tick(ctx); err != nil {
			return fmt.Errorf("bench: tick: %w", err)
		}
		h.Record(time.Since(began))
	}
	p := &r.report
	p.count(figTicks, int64(r.opts.Ticks))
	p.number(figTickP50, micros(h.Quantile(0.50)))
	p.number(figTickP99, micros(h.Quantile(0.99)))
	p.number(figTickMax, micros(h.Max()))
	return nil
}

// measureDispatch adds actions that are due, and then runs them.
func (r *actionsRun) measureDispatch(ctx context.Context) error {
	n := r.opts.N
	adding := &sample{count: int64(n)}
	due := time.Now().Add(-time.Second) // for certain, by any clock
	watch := startWatch()
	if err := r.addAll(ctx, 0, n, func(int) time.Time { return due }); err != nil {
		return err
	}
	watch.stop(adding)
	s, err := r.drain(ctx, "running", n)
	if err != nil {
		return err
	}
	p := &r.report
	p.count(figActions, int64(n))
	p.number(figAdded, adding.perSecond())
	p.number(figDispatched, s.perSecond())
	p.number(figDispatch, s.elapsed.Seconds())
	if s.hasCPU {
		p.number(figAddedCPU, adding.cpuEach())
		p.number(figDispatchedCPU, s.cpuEach())
	}
	if each, source := s.bytesEach(); each >= 1 {
		p.number(figActionWritten, each)
		p.text(figBytesCounted, source)
	}
	return nil
}

// drain runs the service until the n actions that are due have been run, each once, and
// returns what that took.
func (r *actionsRun) drain(ctx context.Context, verb string, n int) (*sample, error) {
	t := &tally{runs: make([]atomic.Int32, n)}
	r.tally.Store(t)
	service, err := r.newService()
	if err != nil {
		return nil, err
	}
	defer r.opts.Progress.Watch(verb, "actions", int64(n), t.count.Load)()
	running, stop := context.WithCancel(ctx)
	defer stop()
	s := &sample{count: int64(n)}
	over := make(chan error, 1)
	watch := startWatch()
	go func() { over <- service.Run(running) }()
	seen, since := -1, time.Now()
	err = every(ctx, time.Millisecond, func() (bool, error) {
		_, due, err := r.waiting(ctx)
		if err != nil || due == 0 {
			return true, err
		}
		if due != seen {
			seen, since = due, time.Now()
		} else if time.Since(since) >= r.opts.Patience {
			return false, fmt.Errorf("bench: %d of %d actions were run, and nothing has happened for %v", t.count.Load(), n, r.opts.Patience)
		}
		return false, nil
	})
	watch.stop(s)
	stop()
	if runErr := <-over; err == nil && runErr != nil {
		err = fmt.Errorf("bench: run actions: %w", runErr)
	}
	if err != nil {
		return nil, err
	}
	return s, t.check()
}

// check returns an error unless each action was run once.
func (t *tally) check() error {
	for i := range t.runs {
		if n := t.runs[i].Load(); n != 1 {
			return fmt.Errorf("bench: action %d of %d was run %d times", i, len(t.runs), n)
		}
	}
	return nil
}
