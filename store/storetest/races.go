package storetest

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/store"
)

// raceCases are about commits that exclude each other, and about who looks on.
var raceCases = []propertyCase{
	{name: "of many appends at the same length exactly one wins", run: func(w *world) {
		k := key("order-1")
		for round := range 10 {
			winner := w.oneWins(store.ErrConflict, func(i int) *store.Tx {
				return &store.Tx{
					Append: []store.Append{{Key: k, At: round, Entries: entries(fmt.Sprintf("by %d", i))}},
					Put:    []store.Message{msg(k, fmt.Sprintf("m%d-%d", round, i))},
				}
			})
			w.equal("log length", w.readLog(k, 0).Length, round+1)
			w.equal("last entry", w.readLog(k, round).Entries, entries(fmt.Sprintf("by %d", winner)))
			w.finish(w.claimKey(k, []string{fmt.Sprintf("m%d-%d", round, winner)}))
		}
	}},

	{name: "of many puts of a record at the same version exactly one wins", run: func(w *world) {
		for round := range 10 {
			winner := w.oneWins(store.ErrConflict, func(i int) *store.Tx {
				return &store.Tx{PutRecords: []store.PutRecord{{
					Record: store.Record{Key: recordKey("r"), Body: fmt.Appendf(nil, "by %d", i)},
					Expect: int64(round),
				}}}
			})
			r := w.get(recordKey("r"))
			w.equal("version", r.Version, int64(round+1))
			w.equal("body", string(r.Body), fmt.Sprintf("by %d", winner))
		}
	}},

	{name: "of many deletes of a record at the same version exactly one wins", run: func(w *world) {
		for range 10 {
			w.putRecord(store.Record{Key: recordKey("r")})
			w.oneWins(store.ErrConflict, func(int) *store.Tx {
				return &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: recordKey("r"), Expect: 1}}}
			})
			w.hasNoRecord(recordKey("r"))
		}
	}},

	{name: "of many commits that finish the same claim exactly one wins", run: func(w *world) {
		for round := range 10 {
			k := key(fmt.Sprintf("order-%d", round))
			w.put(k, "a")
			c := w.claimOne()
			next := keyIn("next", theTenant, k.Name)
			winner := w.oneWins(store.ErrClaimLost, func(i int) *store.Tx {
				tx := finishTx(c)
				tx.Put = []store.Message{msg(next, fmt.Sprintf("by %d", i))}
				return tx
			})
			w.isPending(k)
			w.isPending(next, fmt.Sprintf("by %d", winner))
		}
	}},

	{name: "of a release and a commit that finish the same claim exactly one wins", run: func(w *world) {
		for round := range 20 {
			k := key(fmt.Sprintf("order-%d", round))
			w.put(k, "a")
			c := w.claimOne()
			errs := together(2, func(i int) error {
				if i == 0 {
					return w.Store.Release(w.ctx, store.Release{Lease: c.Lease()})
				}
				return w.Store.Commit(w.ctx, finishTx(c))
			})
			switch {
			case errs[0] == nil && errors.Is(errs[1], store.ErrClaimLost):
				w.finish(w.claimKey(k, []string{"a"}))
			case errs[1] == nil && errors.Is(errs[0], store.ErrClaimLost):
				w.isPending(k)
			default:
				w.t.Fatalf("release: %v, commit: %v; want that one of them lost the claim", errs[0], errs[1])
			}
		}
	}},

	{name: "commits that do not exclude each other all win", run: func(w *world) {
		const n = 32
		errs := together(n, func(i int) error {
			k := key(fmt.Sprintf("order-%d", i))
			return w.Store.Commit(w.ctx, &store.Tx{
				Append: []store.Append{{Key: k, Entries: entries("one")}},
				Put:    []store.Message{msg(k, "a"), msg(key("shared"), fmt.Sprintf("m%d", i))},
			})
		})
		if err := errors.Join(errs...); err != nil {
			w.t.Fatalf("commit: %v", err)
		}
		w.equal("messages to the shared key", len(w.pending(key("shared"))), n)
		w.equal("claimed keys", len(w.claimAll()), n+1)
	}},

	{name: "a claim gets all messages of a commit or none", run: func(w *world) {
		const rounds = 100
		k := key("order-1")
		results := together(2, func(i int) error {
			if i == 0 {
				return w.putPairs(k, rounds)
			}
			return w.claimPairs(rounds)
		})
		if err := errors.Join(results...); err != nil {
			w.t.Fatal(err)
		}
	}},

	{name: "a reader sees all entries of a commit or none", run: func(w *world) {
		const rounds = 100
		k := key("order-1")
		results := together(2, func(i int) error {
			if i == 0 {
				return w.appendPairs(k, rounds)
			}
			return w.readPairs(k, rounds)
		})
		if err := errors.Join(results...); err != nil {
			w.t.Fatal(err)
		}
	}},
}

// oneWins makes many commits at once, checks that one succeeds and that the others
// fail with target, and returns which one it was.
func (w *world) oneWins(target error, tx func(i int) *store.Tx) (winner int) {
	w.t.Helper()
	const commits = 8
	winner = -1
	for i, err := range together(commits, func(i int) error { return w.Store.Commit(w.ctx, tx(i)) }) {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			w.t.Fatalf("commits %d and %d of %d both succeeded", winner, i, commits)
		default:
			w.isErr("commit", err, target)
		}
	}
	if winner < 0 {
		w.t.Fatalf("none of %d commits succeeded", commits)
	}
	return winner
}

// putPairs puts two messages in each of n commits.
func (w *world) putPairs(k store.Key, n int) error {
	for i := range n {
		tx := &store.Tx{Put: []store.Message{msg(k, fmt.Sprintf("a%d", i)), msg(k, fmt.Sprintf("b%d", i))}}
		if err := w.Store.Commit(w.ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// claimPairs consumes 2n messages and checks that they come in pairs.
func (w *world) claimPairs(n int) error {
	for seen := 0; seen < 2*n; {
		claims, err := w.Store.Claim(w.ctx, request(waitFor(store.MaxLease)))
		if err != nil {
			return err
		}
		for _, c := range claims {
			if len(c.Messages)%2 != 0 {
				return fmt.Errorf("claimed %v: half of a commit", idsOf(c.Messages))
			}
			seen += len(c.Messages)
		}
		if err := w.Store.Commit(w.ctx, finishTx(claims...)); err != nil {
			return err
		}
	}
	return nil
}

// appendPairs appends two entries in each of n commits.
func (w *world) appendPairs(k store.Key, n int) error {
	for i := range n {
		tx := &store.Tx{Append: []store.Append{{Key: k, At: 2 * i, Entries: entries("a", "b")}}}
		if err := w.Store.Commit(w.ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// readPairs reads a log until it has 2n entries and checks that it grows by pairs.
func (w *world) readPairs(k store.Key, n int) error {
	for seen := 0; seen < 2*n; {
		page, err := w.Store.ReadLog(w.ctx, k, 0)
		if err != nil {
			return err
		}
		if page.Length%2 != 0 || len(page.Entries) != page.Length || page.Length < seen {
			return fmt.Errorf("a log of length %d has %d entries, and had %d before", page.Length, len(page.Entries), seen)
		}
		seen = page.Length
	}
	return nil
}
