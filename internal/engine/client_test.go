package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

func quick(_ *replay.Context, in []byte) replay.Outcome { return done(string(in)) }

func TestStartIsIdempotent(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve()
		want(r, "existed", r.begin("i", "flow", "first").Existed, false)
		want(r, "existed while it runs or has ended", r.begin("i", "flow", "second").Existed, true)
		want(r, "result", r.result("i"), "first")
		want(r, "existed after it ended", r.begin("i", "flow", "third").Existed, true)
		r.pass(time.Minute)
		want(r, "result", r.result("i"), "first")
		_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "other"})
		r.wantErr(err, ErrExists, "flow", "other")
	})
}

func TestStartThatRejects(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve()
		reject := func(s *Start) { s.IfExists = Reject }
		want(r, "existed", r.begin("i", "flow", "first", reject).Existed, false)
		r.result("i")
		_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "flow", IfExists: Reject})
		r.wantErr(err, ErrExists, `"i"`, "completed")
	})
}

func TestStartThatReplaces(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome { return done(string(in) + receive(c, "go")) })
		r.serve()
		replace := func(s *Start) { s.IfExists = Replace }
		r.begin("i", "flow", "first", replace)
		r.pass(0)
		want(r, "existed while it runs", r.begin("i", "flow", "not yet", replace).Existed, true)
		_, err := r.Start(r.Context(), Start{Ref: Ref{ID: "i"}, Name: "other", IfExists: Replace})
		r.wantErr(err, ErrExists)
		r.raise("i", "go", "1")
		want(r, "result", r.result("i"), "first1")
		old := r.info("i")
		want(r, "existed", r.begin("i", "flow", "second", replace).Existed, false)
		r.pass(0)
		info := r.info("i")
		want(r, "status", info.Status, Running)
		want(r, "another run", info.run != old.run, true)
		want(r, "history", r.kinds("i"), "TurnStarted ExecutionStarted")
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "second2")
		r.pass(DefaultRetention - time.Minute)
		r.info("i") // the expiry of the first one is not that of the second
	})
}

func TestDelayedStart(t *testing.T) {
	tests := map[string]func(s *Start){
		"after": func(s *Start) { s.After = time.Hour },
		"at":    func(s *Start) { s.At = time.Now().Add(time.Hour) },
	}
	for name, delay := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", quick)
				r.serve()
				r.begin("i", "flow", "x", delay)
				r.pass(time.Hour - time.Millisecond)
				want(r, "status", r.info("i").Status, Pending)
				r.pass(2 * time.Millisecond)
				want(r, "result", r.result("i"), "x")
				r.begin("past", "flow", "x", func(s *Start) { s.At = time.Now().Add(-time.Hour) })
				r.pass(0)
				want(r, "status", r.info("past").Status, Completed)
			})
		})
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve()
		r.begin("taken", "flow", "")
		start := func(id string, policy IfExists) Start {
			return Start{Ref: Ref{ID: id}, Name: "flow", IfExists: policy}
		}
		_, err := r.Start(r.Context(), start("a", Return), start("taken", Reject), start("b", Return))
		r.wantErr(err, ErrExists, "taken")
		for _, id := range []string{"a", "b"} {
			_, err := r.Get(r.Context(), Ref{ID: id})
			r.wantErr(err, ErrNotFound)
		}
		commits := len(r.tape.commits())
		done, err := r.Start(r.Context(), start("a", Return), start("taken", Return), start("b", Reject))
		r.must(err)
		var existed []string
		for _, s := range done {
			existed = append(existed, fmt.Sprint(s.ID, s.Existed))
		}
		want(r, "existed", strings.Join(existed, " "), "afalse takentrue bfalse")
		n := 0
		for _, tx := range r.tape.commits()[commits:] {
			if len(puts(&tx, Ref{ID: "a"}.key())) > 0 {
				n++
				want(r, "in the same commit", len(puts(&tx, Ref{ID: "b"}.key())), 1)
			}
		}
		want(r, "commits that start", n, 1)
		_, err = r.Start(r.Context(), start("c", Return), start("c", Return))
		r.wantErr(err, ErrInvalid, "twice")
		none, err := r.Start(r.Context())
		r.must(err)
		want(r, "started of none", len(none), 0)
	})
}

func TestListFiltersAndCursor(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("good", quick)
		r.flow("bad", func(*replay.Context, []byte) replay.Outcome { return failed(failure("no")) })
		r.flow("slow", waiter)
		r.serve()
		epoch := time.Now()
		for i := range 30 {
			name := []string{"good", "bad", "slow"}[i%3]
			r.begin(fmt.Sprintf("%02d", i), name, "", func(s *Start) {
				s.Tenant = []string{"", "acme"}[i%2]
				s.Tags = map[string]string{"tens": fmt.Sprint(i / 10), "color": "red"}
			})
			r.pass(time.Minute)
		}
		acme := "acme"
		tests := []struct {
			name string
			q    Query
			want string
		}{
			{"by orchestration", Query{Orchestrations: []string{"bad"}, Limit: 3}, "01 04 07"},
			{"by two", Query{Orchestrations: []string{"bad", "good"}, Limit: 3}, "00 01 03"},
			{"by status", Query{Statuses: []Status{Running}, Limit: 3}, "02 05 08"},
			{"by two statuses", Query{Statuses: []Status{Running, Failed}, Limit: 3}, "01 02 04"},
			{"by tenant", Query{Tenant: &acme, Limit: 3}, "01 03 05"},
			{"by tenant and status", Query{Tenant: &acme, Statuses: []Status{Completed}, Limit: 2}, "03 09"},
			{"by tag", Query{Tags: map[string]string{"tens": "2"}, Orchestrations: []string{"good"}}, "21 24 27"},
			{"by two tags", Query{Tags: map[string]string{"tens": "2", "color": "blue"}}, ""},
			{"by time", Query{From: epoch.Add(5 * time.Minute), To: epoch.Add(8 * time.Minute)}, "05 06 07"},
			{"by prefix", Query{Prefix: "1", Limit: 2}, "10 11"},
			{"by prefix and tenant", Query{Prefix: "1", Tenant: &acme, Limit: 2}, "11 13"},
			{"by the prefix of none", Query{Prefix: "3"}, ""},
			{"by the parent of none", Query{Parent: "10"}, ""},
			{"latest first", Query{Descending: true, Limit: 3}, "29 28 27"},
			{"unused status", Query{Statuses: []Status{Continued}}, ""},
		}
		for _, tt := range tests {
			infos, _, err := r.List(r.Context(), tt.q)
			r.must(err)
			want(r, tt.name, idsOf(infos), tt.want)
		}
		var all []Info
		q := Query{Limit: 7}
		for {
			infos, next, err := r.List(r.Context(), q)
			r.must(err)
			all = append(all, infos...)
			if q.Cursor = next; next == "" {
				break
			}
		}
		ids := strings.Fields(idsOf(all))
		want(r, "all, by cursor, once and in order", len(ids) == 30 && slices.IsSorted(ids), true)
		_, _, err := r.List(r.Context(), Query{Statuses: []Status{"asleep"}})
		r.wantErr(err, ErrInvalid, "asleep", "stalled")
	})
}

func idsOf(infos []Info) string {
	ids := make([]string, len(infos))
	for i := range infos {
		ids[i] = infos[i].ID
	}
	return strings.Join(ids, " ")
}

func TestWhatIsNotThere(t *testing.T) {
	inBubble(t, func(r *rig) {
		nobody := Ref{Tenant: "acme", ID: "nobody"}
		c, ctx := r.client(), r.Context()
		_, err := c.Get(ctx, nobody)
		r.wantErr(err, ErrNotFound, "acme/nobody")
		_, err = c.Wait(ctx, nobody)
		r.wantErr(err, ErrNotFound)
		_, _, err = c.History(ctx, nobody, 0)
		r.wantErr(err, ErrNotFound)
		for verb, f := range map[string]func() error{
			"cancel":    func() error { return c.Cancel(ctx, nobody, "") },
			"terminate": func() error { return c.Terminate(ctx, nobody, "") },
			"suspend":   func() error { return c.Suspend(ctx, nobody, "") },
			"resume":    func() error { return c.Resume(ctx, nobody) },
			"restart":   func() error { return c.Restart(ctx, nobody) },
			"delete":    func() error { return c.Delete(ctx, nobody) },
			"fork":      func() error { return c.Fork(ctx, nobody, 1, "f") },
		} {
			checkErr(r.T, f(), ErrNotFound, "acme/nobody")
			_ = verb
		}
	})
}

func TestRestart(t *testing.T) {
	inBubble(t, func(r *rig) {
		runs := 0
		r.flow("flow", func(_ *replay.Context, in []byte) replay.Outcome {
			if runs++; runs == 1 {
				return failed(failure("not yet"))
			}
			return done(string(in))
		})
		r.serve()
		r.begin("i", "flow", "input", func(s *Start) { s.Tags = map[string]string{"color": "red"} })
		r.until("i", Failed)
		r.must(r.Restart(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "input")
		want(r, "tag", r.info("i").Tags["color"], "red")
		want(r, "failure of the first", r.info("i").Failure == nil, true)
		r.flow("slow", waiter)
		r.again()
		r.begin("s", "slow", "")
		r.pass(0)
		r.wantErr(r.Restart(r.Context(), Ref{ID: "s"}), ErrState, "running")
	})
}

// TestRestartOfWhatNeverBegan says why not.
func TestRestartOfWhatNeverBegan(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve()
		r.begin("i", "flow", "input")
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Terminated)
		r.wantErr(r.Restart(r.Context(), Ref{ID: "i"}), ErrState, "input")
	})
}

func TestDelete(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.wantErr(r.Delete(r.Context(), Ref{ID: "i"}), ErrState, "running")
		r.raise("i", "go", "x")
		r.result("i")
		r.must(r.Delete(r.Context(), Ref{ID: "i"}))
		_, err := r.Get(r.Context(), Ref{ID: "i"})
		r.wantErr(err, ErrNotFound)
		r.wantErr(r.Delete(r.Context(), Ref{ID: "i"}), ErrNotFound)
		page, err := r.tape.ReadLog(r.Context(), Ref{ID: "i"}.key(), 0)
		r.must(err)
		want(r, "log", page.Length, 0)
		want(r, "the ID is free again", r.begin("i", "flow", "").Existed, false)
		r.raise("i", "go", "y")
		want(r, "result", r.result("i"), "y")
	})
}

func TestRetentionDeletes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve(func(c *Config) { c.Retention = time.Hour })
		r.begin("i", "flow", "")
		r.result("i")
		r.pass(time.Hour - time.Minute)
		r.info("i")
		r.pass(2 * time.Minute)
		_, err := r.Get(r.Context(), Ref{ID: "i"})
		r.wantErr(err, ErrNotFound)
		want(r, "expired", r.Count().Expired.Load(), 1)
		stats, err := r.tape.Stats(r.Context())
		r.must(err)
		want(r, "routes with messages", len(stats.Routes), 0)
	})
}

// TestRetentionNeedsNobodyWhoServes: any engine deletes.
func TestRetentionNeedsNobodyWhoServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve()
		r.begin("i", "flow", "")
		r.result("i")
		delete(r.code, "flow")
		r.again()
		r.pass(DefaultRetention + time.Minute)
		_, err := r.Get(r.Context(), Ref{ID: "i"})
		r.wantErr(err, ErrNotFound)
	})
}

func TestRetentionForEver(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", quick)
		r.serve(func(c *Config) { c.Retention = -1 })
		r.begin("i", "flow", "x")
		r.pass(365 * 24 * time.Hour)
		want(r, "result", r.result("i"), "x")
	})
}

func TestAwaitSeesChanges(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for i := range 3 {
				c.SetStatus(fmt.Sprint("at ", i))
				sleep(c, time.Minute)
			}
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "")
		var texts []string
		info := r.info("i")
		for !info.Status.Ended() {
			if n := len(texts); info.Text != "" && (n == 0 || texts[n-1] != info.Text) {
				texts = append(texts, info.Text)
			}
			var err error
			info, err = r.Await(r.Context(), Ref{ID: "i"}, info.Revision)
			r.must(err)
		}
		want(r, "texts", strings.Join(texts, ", "), "at 0, at 1, at 2")
		want(r, "values", len(info.Values), 0)
	})
}

func TestValuesCanBeReadFromOutside(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			c.SetValue("a", []byte("1"))
			c.SetValue("b", []byte("2"))
			c.SetValue("a", []byte("3"))
			c.SetValue("b", nil)
			if len(in) == 0 {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: []byte("second")}}
			}
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		info := r.info("i")
		want(r, "a", string(info.Values["a"]), "3")
		_, there := info.Values["b"]
		want(r, "b", there, false)
	})
}

// TestOldVersionStaysAndContinueAsNewMovesOn.
func TestOldVersionStaysAndContinueAsNewMovesOn(t *testing.T) {
	inBubble(t, func(r *rig) {
		flow := func(version string) replay.Code {
			return func(c *replay.Context, in []byte) replay.Outcome {
				out := string(in) + version
				switch receive(c, "go") {
				case "stay":
					return replay.Outcome{Continue: &replay.Continue{Name: "flow", Version: version, Input: []byte(out)}}
				case "move":
					return replay.Outcome{Continue: &replay.Continue{Name: "flow", Version: "2", Input: []byte(out)}}
				default:
					return done(out)
				}
			}
		}
		r.flow("flow@1", flow("1"))
		r.serve()
		r.begin("i", "flow", "", func(s *Start) { s.Version = "1" })
		r.pass(0)
		r.flow("flow@2", flow("2"))
		r.again()
		for _, word := range []string{"stay", "stay", "move", "stay", "end"} {
			r.raise("i", "go", word)
			r.pass(time.Second)
		}
		want(r, "result", r.result("i"), "11122")
		want(r, "version", r.info("i").Version, "2")
	})
}

// TestVersionThatNobodyServesWaits, and is visible.
func TestVersionThatNobodyServesWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow@1", waiter)
		r.serve()
		r.begin("i", "flow", "", func(s *Start) { s.Version = "1" })
		r.pass(0)
		delete(r.code, "flow@1")
		r.flow("flow@2", waiter)
		r.again()
		r.raise("i", "go", "x")
		r.pass(time.Hour)
		rows, err := r.Unserved(r.Context())
		r.must(err)
		if len(rows) != 1 || rows[0].Route != "flow@1" {
			r.Errorf("unserved: %+v", rows)
		}
		r.flow("flow@1", waiter)
		r.again()
		want(r, "result", r.result("i"), "x")
	})
}

// TestClientNeedsNoEngine: all that it does is a commit.
func TestClientNeedsNoEngine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.begin("i", "flow", "in")
		r.raise("i", "go", "x")
		r.must(r.client().Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.must(r.client().Resume(r.Context(), Ref{ID: "i"}))
		r.flow("flow", waiter)
		r.serve()
		want(r, "result", r.result("i"), "x")
		for _, tx := range r.tape.commits() {
			r.must(tx.Validate())
		}
		want(r, "in quarantine", len(r.quarantined()), 0)
		want(r, "event", r.countKind("i", history.EventReceived), 1)
	})
}
