package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// gone checks that nothing is left of instances.
func (r *rig) gone(ids ...string) {
	r.Helper()
	for _, id := range ids {
		_, err := r.client().Get(r.Context(), Ref{ID: id})
		r.wantErr(err, ErrNotFound)
		page, err := r.tape.ReadLog(r.Context(), Ref{ID: id}.key(), 0)
		r.must(err)
		want(r, "length of the log of "+id, page.Length, 0)
		want(r, "messages of "+id, len(r.pending(Ref{ID: id}.key())), 0)
	}
}

func TestPurge(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		_, err := r.Purge(r.Context(), Ref{ID: "i"}, false)
		r.wantErr(err, ErrState, "running")
		r.raise("i", "go", "x")
		r.result("i")
		n, err := r.Purge(r.Context(), Ref{ID: "i"}, false)
		r.must(err)
		want(r, "deleted", n, 1)
		r.gone("i")
		_, err = r.Purge(r.Context(), Ref{ID: "i"}, true)
		r.wantErr(err, ErrNotFound)
	})
}

// generations registers an orchestration "parent" that starts "p.1" and, after it continued as new, "p.2", each
// of which has a child; and one "leaver" that ends before its child does.
func (r *rig) generations() {
	r.flow("leaf", quick)
	r.flow("middle", func(c *replay.Context, in []byte) replay.Outcome {
		return outcome(c, c.Child("leaf", string(in)+".leaf", nil, history.Child{}))
	})
	r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
		id := "p." + string(in)
		c.Wait(c.Child("middle", id, []byte(id), history.Child{}))
		if string(in) == "1" {
			return replay.Outcome{Continue: &replay.Continue{Name: "parent", Input: []byte("2")}}
		}
		return done("")
	})
	r.flow("wait", waiter)
	r.flow("leaver", func(c *replay.Context, _ []byte) replay.Outcome {
		c.Child("wait", "left", nil, history.Child{OnClose: history.AbandonChild})
		c.Child("leaf", "taken", nil, history.Child{OnClose: history.AbandonChild})
		_ = sleep(c, time.Second)
		return done("")
	})
}

// TestPurgeRecursively: children of this execution and the one before, and theirs.
func TestPurgeRecursively(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.generations()
		r.serve()
		r.begin("p", "parent", "1")
		r.result("p")
		want(r, "grandchild of the execution before", r.info("p.1.leaf").Status, Completed)
		n, err := r.Purge(r.Context(), Ref{ID: "p"}, true)
		r.must(err)
		want(r, "deleted", n, 5)
		r.gone("p", "p.1", "p.2", "p.1.leaf", "p.2.leaf")

		r.begin("p", "parent", "1")
		r.result("p")
		n, err = r.Purge(r.Context(), Ref{ID: "p"}, false)
		r.must(err)
		want(r, "deleted alone", n, 1)
		r.info("p.1")
	})
}

// TestPurgeKeepsOthers: a child that runs, and an instance that has the ID of a child and is none.
func TestPurgeKeepsOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.generations()
		r.serve()
		r.begin("taken", "leaf", "")
		r.result("taken")
		r.begin("p", "leaver", "")
		r.result("p")
		r.pass(time.Second)
		n, err := r.Purge(r.Context(), Ref{ID: "p"}, true)
		r.must(err)
		want(r, "deleted", n, 1)
		want(r, "child that runs", r.info("left").Status, Running)
		want(r, "another one with the ID of a child", r.info("taken").Status, Completed)
		r.raise("left", "go", "")
		r.result("left")

		r.must2(r.Purge(r.Context(), Ref{ID: "taken"}, false))
		r.must2(r.Purge(r.Context(), Ref{ID: "left"}, false))
		r.begin("p", "leaver", "")
		r.result("p")
		r.raise("left", "go", "")
		r.result("left")
		n, err = r.Purge(r.Context(), Ref{ID: "p"}, true)
		r.must(err)
		want(r, "deleted, with the child that ended after its parent", n, 3)
	})
}

// TestPurgeIsRepeated: one that was interrupted has kept the parent, by which the rest is found.
func TestPurgeIsRepeated(t *testing.T) {
	inBubble(t, func(r *rig) {
		const children = 2 * purgeBatch
		r.flow("leaf", quick)
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			all := make([]*replay.Future, children)
			for i := range all {
				all[i] = c.Child("leaf", fmt.Sprintf("c%d", i), nil, history.Child{})
			}
			for _, f := range all {
				c.Wait(f)
			}
			return done("")
		})
		r.serve()
		r.begin("p", "parent", "")
		r.result("p")
		commits := 0
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.DeleteRecords) > 0 {
				if commits++; commits == 2 {
					return errBroken
				}
				if n := len(tx.DeleteRecords); n > purgeBatch {
					r.Errorf("%d instances in a commit", n)
				}
			}
			return nil
		})
		n, err := r.Purge(r.Context(), Ref{ID: "p"}, true)
		r.wantErr(err, errBroken)
		want(r, "deleted before", n, purgeBatch)
		n, err = r.Purge(r.Context(), Ref{ID: "p"}, true)
		r.must(err)
		want(r, "deleted then", n, children-purgeBatch+1)
		left, _, err := r.List(r.Context(), Query{})
		r.must(err)
		want(r, "left", len(left), 0)
	})
}

func TestPurgeWhere(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("quick", quick)
		r.flow("fails", func(*replay.Context, []byte) replay.Outcome { return failed(failure("no")) })
		r.flow("wait", waiter)
		r.serve()
		for i := range 5 {
			r.begin(fmt.Sprintf("old%d", i), "quick", "")
		}
		r.begin("failed", "fails", "")
		r.begin("open", "wait", "")
		r.begin("other", "quick", "", func(s *Start) { s.Tenant = "other" })
		r.pass(time.Hour)
		noon := time.Now()
		r.pass(time.Minute)
		r.begin("young", "quick", "")
		r.pass(time.Minute)
		tenant := ""
		purge := func(f PurgeFilter, wantN int, wantDone bool) {
			r.Helper()
			f.Tenant = &tenant
			n, done, err := r.PurgeWhere(r.Context(), f)
			r.must(err)
			want(r, "deleted", n, wantN)
			want(r, "done", done, wantDone)
		}
		purge(PurgeFilter{Statuses: []Status{Running, Pending}}, 0, true)
		purge(PurgeFilter{Statuses: []Status{Completed}, To: noon, Limit: 2}, 2, false)
		purge(PurgeFilter{Statuses: []Status{Completed, Running}, To: noon, Limit: 3}, 3, true)
		purge(PurgeFilter{Statuses: []Status{Completed}, To: noon}, 0, true)
		r.info("failed")
		purge(PurgeFilter{From: noon}, 1, true)
		purge(PurgeFilter{}, 1, true)
		left, _, err := r.List(r.Context(), Query{})
		r.must(err)
		want(r, "left", len(left), 2)
	})
}

// TestPurgeWhereEnds when its time is over, and goes on with the next call.
func TestPurgeWhereEnds(t *testing.T) {
	inBubble(t, func(r *rig) {
		const all = purgePage + 50
		r.flow("quick", quick)
		r.serve()
		for i := range all {
			r.begin(fmt.Sprintf("i%d", i), "quick", "")
		}
		r.pass(time.Second)
		r.tape.slowly(time.Second)
		n, done, err := r.PurgeWhere(r.Context(), PurgeFilter{Timeout: 500 * time.Millisecond})
		r.must(err)
		want(r, "done", done, false)
		want(r, "deleted in a first commit", n, purgeBatch)
		n, done, err = r.PurgeWhere(r.Context(), PurgeFilter{})
		r.must(err)
		want(r, "done then", done, true)
		want(r, "deleted then", n, all-purgeBatch)
	})
}

// TestRestartAs: with the input of the last execution; the old one stays, and may run or not have begun.
func TestRestartAs(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow@2", func(c *replay.Context, in []byte) replay.Outcome {
			if string(in) == "first" {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Version: "2", Input: []byte("last")}}
			}
			return tagged(c, in)
		})
		r.serve()
		v2 := func(s *Start) { s.Version, s.Tags = "2", map[string]string{"color": "red"} }
		r.begin("i", "flow", "first", v2)
		r.pass(time.Second)
		again := func(id string) error { return r.RestartAs(r.Context(), Ref{ID: "i"}, id) }
		r.must(again("while it runs"))
		r.raise("i", "go", "1")
		want(r, "result of the first", r.result("i"), "last 1")
		r.must(again("after its end"))
		r.wantErr(again("after its end"), ErrExists, "running")
		r.wantErr(again("i"), ErrExists, "completed")
		for _, id := range []string{"while it runs", "after its end"} {
			r.raise(id, "go", "2")
			want(r, id, r.result(id), "last 2")
			want(r, "tag", r.info(id).Tags["color"], "red")
		}
		want(r, "the first stays", string(r.info("i").Result), "last 1")
		r.wantErr(r.RestartAs(r.Context(), Ref{ID: "none"}, "n"), ErrNotFound)
		r.begin("later", "flow", "in", v2, func(s *Start) { s.After = time.Hour })
		r.must(r.RestartAs(r.Context(), Ref{ID: "later"}, "now"))
		r.raise("now", "go", "3")
		want(r, "of one that has not begun", r.result("now"), "in 3")
	})
}
