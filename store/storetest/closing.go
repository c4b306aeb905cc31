package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/store"
)

var closingCases = []propertyCase{
	{name: "closing ends the claims that wait", run: func(w *world) {
		waits := []*waiter{w.wait(), w.wait(serving("other")), w.wait(from("another queue"))}
		w.close()
		for _, p := range waits {
			_, err := p.result()
			w.isErr("claim", err, store.ErrClosed)
		}
	}},

	{name: "closing ends the waits for records", run: func(w *world) {
		w.commit(putTx(recordKey("there"), 0, "running"))
		waits := []*awaiter{w.await(recordKey("absent"), 0), w.await(recordKey("there"), 1)}
		w.close()
		for _, p := range waits {
			p.failed(store.ErrClosed)
		}
	}},

	{name: "after it was closed every method says so", run: func(w *world) {
		w.put(key("order-1"), "m")
		w.commit(putTx(recordKey("r"), 0, "running"))
		c := w.claimOne()
		w.close()
		for _, call := range callsOf(w.Store, c.Lease()) {
			w.isErr(call.name, call.call(w.ctx), store.ErrClosed)
		}
	}},

	{name: "closing twice is fine", run: func(w *world) {
		w.put(key("order-1"), "m")
		w.close()
		w.close()
	}},

	{name: "closing at once by many is fine", run: func(w *world) {
		w.put(key("order-1"), "m")
		if err := errors.Join(together(8, func(int) error { return w.Store.Close() })...); err != nil {
			w.t.Fatalf("close: %v", err)
		}
		_, err := w.Store.Stats(w.ctx)
		w.isErr("stats", err, store.ErrClosed)
	}},

	{name: "calls of every kind at once with closing succeed or say that it was closed", run: func(w *world) {
		for i := range 20 {
			w.put(key(fmt.Sprintf("order-%d", i)), "m")
		}
		w.commit(putTx(recordKey("r"), 0, "running"))
		calls := callsOf(w.Store, w.claimAll(upTo(1))[0].Lease())
		const callers = 3
		var under atomic.Int64
		errs := together(callers*len(calls)+1, func(i int) error {
			if i == callers*len(calls) {
				return w.closeWhile(&under)
			}
			call := calls[i%len(calls)]
			for {
				under.Add(1)
				if err := call.call(w.ctx); errors.Is(err, store.ErrClosed) {
					return nil
				} else if err != nil && !errors.Is(err, store.ErrClaimLost) {
					return fmt.Errorf("%s: %w", call.name, err)
				}
			}
		})
		if err := errors.Join(errs...); err != nil {
			w.t.Fatal(err)
		}
	}},

	{name: "what was committed while the store was being closed is there afterwards", needsReopen: true, run: func(w *world) {
		const writers = 8
		var under atomic.Int64
		done := make([]int, writers)
		errs := together(writers+1, func(i int) error {
			if i == writers {
				return w.closeWhile(&under)
			}
			for {
				under.Add(1)
				err := w.Store.Commit(w.ctx, appendTx(key(fmt.Sprintf("order-%d", i)), done[i], fmt.Sprint(done[i])))
				if errors.Is(err, store.ErrClosed) {
					return nil
				}
				if err != nil {
					return err
				}
				done[i]++
			}
		})
		if err := errors.Join(errs...); err != nil {
			w.t.Fatal(err)
		}
		w.Reopen()
		for i, n := range done {
			got := w.logTexts(key(fmt.Sprintf("order-%d", i)))
			if len(got) < n {
				w.t.Fatalf("%d commits of writer %d were acknowledged and %d are there", n, i, len(got))
			}
			for j, text := range got {
				w.equal("entry", text, fmt.Sprint(j))
			}
		}
	}},

	{name: "a store that was closed can be opened again with all that it held", needsReopen: true, run: func(w *world) {
		k := key("order-1")
		w.put(k, "a", "b")
		w.append(k, 0, "entry")
		w.commit(putTx(recordKey("r"), 0, "running"))
		w.claimOne()
		w.close()
		w.Reopen()
		w.isPending(k, "a", "b")
		w.isLog(k, 0, "entry")
		w.isVersion(recordKey("r"), 1)
		w.Advance(theLease) // a lease may outlive its process
		w.claimKey(k, []string{"a", "b"})
	}},
}

// close closes the store and checks that it does so without an error.
func (w *world) close() {
	w.t.Helper()
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = w.Store.Close()
	}()
	w.finishes("close", done)
	if err != nil {
		w.t.Fatalf("close: %v", err)
	}
}

// closeWhile closes the store once some calls are under way. It may be called by any
// goroutine.
func (w *world) closeWhile(under *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for under.Load() < 100 && ctx.Err() == nil {
		if _, err := w.Store.Stats(ctx); err != nil {
			return err
		}
	}
	return w.Store.Close()
}

// namedCall is a call of one method of a store.
type namedCall struct {
	name string
	call func(context.Context) error
}

// callsOf returns a call of every method that a store has, except Close, with
// arguments that are valid.
func callsOf(s store.Store, lease store.Lease) []namedCall {
	return []namedCall{
		{"commit of nothing", func(ctx context.Context) error { return s.Commit(ctx, &store.Tx{}) }},
		{"commit", func(ctx context.Context) error {
			return s.Commit(ctx, &store.Tx{Put: []store.Message{msg(key("order-1"), "n")}})
		}},
		{"finish", func(ctx context.Context) error {
			return s.Commit(ctx, &store.Tx{Finish: []store.Finish{{Lease: lease}}})
		}},
		{"claim", func(ctx context.Context) error {
			_, err := s.Claim(ctx, request(upTo(1)))
			return err
		}},
		{"claim that waits", func(ctx context.Context) error {
			_, err := s.Claim(ctx, request(upTo(1), waitFor(time.Hour)))
			return err
		}},
		{"renew", func(ctx context.Context) error {
			_, err := s.Renew(ctx, theLease, []store.Lease{lease})
			return err
		}},
		{"renew of nothing", func(ctx context.Context) error {
			_, err := s.Renew(ctx, theLease, nil)
			return err
		}},
		{"release", func(ctx context.Context) error { return s.Release(ctx, store.Release{Lease: lease}) }},
		{"release with a delay", func(ctx context.Context) error {
			return s.Release(ctx, store.Release{Lease: lease, After: time.Second})
		}},
		{"leases", func(ctx context.Context) error {
			_, err := s.Leases(ctx, store.LeaseQuery{})
			return err
		}},
		{"leases of a key", func(ctx context.Context) error {
			_, err := s.Leases(ctx, store.LeaseQuery{Key: lease.Key})
			return err
		}},
		{"read log", func(ctx context.Context) error {
			_, err := s.ReadLog(ctx, lease.Key, 0)
			return err
		}},
		{"pending", func(ctx context.Context) error {
			_, err := s.Pending(ctx, lease.Key, 0)
			return err
		}},
		{"get", func(ctx context.Context) error {
			_, err := s.Get(ctx, recordKey("r"))
			return err
		}},
		{"list", func(ctx context.Context) error {
			_, err := s.List(ctx, store.Query{Kind: theKind})
			return err
		}},
		{"count", func(ctx context.Context) error {
			_, err := s.Count(ctx, store.Query{Kind: theKind}, 1)
			return err
		}},
		{"await", func(ctx context.Context) error {
			_, err := s.Await(ctx, recordKey("r"), 0)
			return err
		}},
		{"await that waits", func(ctx context.Context) error {
			_, err := s.Await(ctx, recordKey("r"), 1)
			return err
		}},
		{"stats", func(ctx context.Context) error {
			_, err := s.Stats(ctx)
			return err
		}},
	}
}
