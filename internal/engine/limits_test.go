package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

func long(n int) string { return strings.Repeat("x", n) }

// TestLimitsAtTheirEdge: what is just allowed works to the end, and one more is an error
// that names both.
func TestLimitsAtTheirEdge(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, name := range []string{"flow", long(MaxName), long(MaxName) + "@" + long(MaxVersion)} {
			r.flow(name, quick)
		}
		r.serve()
		ok := Start{Ref: Ref{ID: "i"}, Name: "flow"}
		starts := []struct {
			name  string
			limit int
			make  func(n int) Start
		}{
			{"ID", MaxID, func(n int) Start { s := ok; s.ID = long(n); return s }},
			{"tenant", MaxTenant, func(n int) Start { s := ok; s.Tenant = long(n); return s }},
			{"name", MaxName, func(n int) Start { s := ok; s.Ref.ID, s.Name = "name", long(n); return s }},
			{"version", MaxVersion, func(n int) Start {
				s := ok
				s.Ref.ID, s.Name, s.Version = "version", long(MaxName), long(n)
				return s
			}},
			{"input", MaxPayload, func(n int) Start { s := ok; s.Ref.ID, s.Input = "input", bytes.Repeat([]byte("x"), n); return s }},
		}
		for _, tt := range starts {
			s := tt.make(tt.limit)
			_, err := r.Start(r.Context(), s)
			r.must(err)
			info, err := r.Wait(r.Context(), s.Ref)
			r.must(err)
			want(r, tt.name, info.Status, Completed)
			_, err = r.Start(r.Context(), tt.make(tt.limit+1))
			r.wantErr(err, ErrInvalid, fmt.Sprint(tt.limit+1), fmt.Sprint(tt.limit))
		}
	})
}

func TestLimitOfABatch(t *testing.T) {
	inBubble(t, func(r *rig) {
		starts := make([]Start, MaxBatch+1)
		for i := range starts {
			starts[i] = Start{Ref: Ref{ID: fmt.Sprint(i)}, Name: "flow"}
		}
		_, err := r.client().Start(r.Context(), starts...)
		r.wantErr(err, ErrInvalid, "1001", "1000")
		_, err = r.client().Start(r.Context(), starts[:MaxBatch]...)
		r.must(err)
		want(r, "started", r.info("999").Status, Pending)
	})
}

func TestLimitsOfARaise(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome { return done(receive(c, string(in))) })
		r.serve()
		r.begin("i", "flow", long(MaxName))
		ok := Raise{Ref: Ref{ID: "i"}, Name: long(MaxName), ID: long(MaxName), Data: bytes.Repeat([]byte("x"), MaxPayload)}
		bad := map[string]Raise{"name": ok, "ID": ok, "data": ok, "no name": ok, "no instance": ok}
		for name, raise := range bad {
			var words []string
			switch name {
			case "name":
				raise.Name, words = long(MaxName+1), []string{"event", "129", "128"}
			case "ID":
				raise.ID, words = long(MaxName+1), []string{"129", "128"}
			case "data":
				raise.Data, words = append(raise.Data, 'x'), []string{"event", fmt.Sprint(MaxPayload + 1), fmt.Sprint(MaxPayload)}
			case "no name":
				raise.Name, words = "", []string{"event", "empty"}
			case "no instance":
				raise.Ref.ID, words = "", []string{"ID", "empty"}
			}
			_, err := r.Raise(r.Context(), raise)
			r.wantErr(err, ErrInvalid, words...)
		}
		r.must2(r.Raise(r.Context(), ok))
		want(r, "length", len(r.result("i")), MaxPayload)
	})
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".control", "a@b", "a\nb", "a\x00", "a\x7f", "\xff", long(MaxName + 1)} {
		checkErr(t, CheckName("activity", name), ErrInvalid, "activity")
	}
	for _, name := range []string{"a", "ein Wort", "größe", "日本", "a/b:c.d", long(MaxName)} {
		if err := CheckName("activity", name); err != nil {
			t.Error(err)
		}
	}
	for _, version := range []string{"", "1", "2026-08-01", long(MaxVersion)} {
		if err := CheckVersion(version); err != nil {
			t.Error(err)
		}
	}
	for _, version := range []string{"a@b", ".", long(MaxVersion + 1)} {
		checkErr(t, CheckVersion(version), ErrInvalid, "version")
	}
	for _, ref := range []Ref{{}, {ID: "\xff"}, {Tenant: "\xff", ID: "i"}, {ID: long(MaxID + 1)}, {Tenant: long(MaxTenant + 1), ID: "i"}} {
		checkErr(t, checkRef(ref), ErrInvalid)
	}
	checkErr(t, checkStarts([]Start{{Ref: Ref{ID: "i"}, Name: "flow", After: -1}}), ErrInvalid, "negative")
}

// TestTagsHaveTheLimitsOfTheStore, and the error says which.
func TestTagsHaveTheLimitsOfTheStore(t *testing.T) {
	inBubble(t, func(r *rig) {
		tags := map[string]string{}
		for i := range store.MaxTags {
			tags[fmt.Sprint(i)] = "x"
		}
		r.begin("i", "flow", "", func(s *Start) { s.Tags = tags })
		tags["one more"] = "x"
		_, err := r.client().Start(r.Context(), Start{Ref: Ref{ID: "j"}, Name: "flow", Tags: tags})
		r.wantErr(err, store.ErrInvalid, "tags", fmt.Sprint(store.MaxTags))
	})
}

func TestValuesHaveALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			for i := range MaxValues {
				c.SetValue(fmt.Sprint(i), []byte("x"))
			}
			if string(in) == "more" {
				c.SetValue("more", []byte("x"))
			}
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("good", "flow", "")
		r.pass(0)
		want(r, "values", len(r.info("good").Values), MaxValues)
		r.begin("bad", "flow", "more")
		info := r.until("bad", Stalled)
		for _, words := range []string{"limit", "values", fmt.Sprint(MaxValues + 1), fmt.Sprint(MaxValues)} {
			want(r, "reason says "+words, strings.Contains(info.Reason, words), true)
		}
	})
}

// TestResultAtItsLimit goes through a parent, with all that can come along.
func TestResultAtItsLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(_ *replay.Context, in []byte) replay.Outcome { return done(string(in)) })
		r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
			for i := range MaxValues {
				c.SetValue(fmt.Sprint(i), bytes.Repeat([]byte("x"), MaxValue))
			}
			c.SetStatus(long(MaxStatusText))
			return outcome(c, c.Child("leaf", "", in, history.Child{}))
		})
		r.serve()
		r.begin("p", "parent", long(MaxPayload))
		want(r, "length", len(r.result("p")), MaxPayload)
	})
}

// TestContinueAsNewAtItsLimit: an input at its limit, with values and tags.
func TestContinueAsNewAtItsLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) > 0 {
				return done(fmt.Sprint(len(in)))
			}
			for i := range MaxValues {
				c.SetValue(fmt.Sprint(i), bytes.Repeat([]byte("x"), MaxValue))
			}
			return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: bytes.Repeat([]byte("x"), MaxPayload)}}
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), fmt.Sprint(MaxPayload))
		want(r, "values", len(r.info("i").Values), MaxValues)
	})
}

// TestTurnThatIsTooLargeStalls: and nothing of it is there. What the code does is divided
// among turns, what it leaves to the next execution is not.
func TestTurnThatIsTooLargeStalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			receive(c, "go")
			c.Activity("nobody", in, history.Activity{})
			return replay.Outcome{Continue: &replay.Continue{Name: "flow"}}
		})
		r.serve()
		r.begin("i", "flow", "")
		for range store.MaxTxBytes/MaxPayload + 1 {
			r.raise("i", "not received", long(MaxPayload))
			r.pass(time.Second)
		}
		r.raise("i", "go", "")
		info := r.until("i", Stalled)
		want(r, "reason: "+info.Reason, strings.Contains(info.Reason, "cannot be committed"), true)
		want(r, "activities", r.countKind("i", history.ActivityScheduled), 0)
		r.must(r.Terminate(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Terminated)
	})
}

// TestLongHistory: five thousand events, replayed from the beginning more than once.
func TestLongHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 1700
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			for i := range n {
				sleep(c, time.Second)
				if i%100 == 0 {
					c.SetStatus(fmt.Sprint(i))
				}
			}
			return done(fmt.Sprint(n))
		})
		r.serve()
		r.begin("i", "flow", "")
		for range 4 {
			r.pass(n / 5 * time.Second)
			r.again()
		}
		want(r, "result", r.result("i"), fmt.Sprint(n))
		want(r, "replayed", r.Count().Replays.Load(), 1)
		events := r.events("i")
		if len(events) < 5000 {
			r.Errorf("only %d events", len(events))
		}
		for i, e := range events {
			if int(e.ID) != i+1 {
				r.Fatalf("event %d has ID %d", i+1, e.ID)
			}
		}
		start := time.Now()
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, int32(len(events)-2), "f"))
		want(r, "result", r.result("f"), fmt.Sprint(n))
		if took := time.Since(start); took > 2*time.Second {
			r.Errorf("the fork waited for %v", took)
		}
	})
}
