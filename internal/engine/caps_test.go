package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// cappedFlow registers the orchestration "flow", which calls the activity that its input names, and activities of
// these names, which take as long as they say. The result of an instance is how long its activity has waited.
func (r *rig) cappedFlow(m *meterOf, takes map[string]time.Duration) {
	r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
		return outcome(c, c.Activity(string(in), in, history.Activity{MaxAttempts: 1}))
	})
	for name, takes := range takes {
		r.act(name, func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
			waited := time.Since(t.ScheduledAt)
			m.run(ctx, name, t.Ref.ID, takes)
			return []byte(waited.String()), nil
		})
	}
}

// leased returns how many tasks of an activity are leased.
func (r *rig) leased(route string) int {
	r.Helper()
	list, err := r.tape.Leases(r.Context(), store.LeaseQuery{Queue: QueueActivities})
	r.must(err)
	n := 0
	for i := range list {
		if list[i].Route == route {
			n++
		}
	}
	return n
}

// TestCapKeepsSlotsForOthers: an activity that is slow and has a backlog takes no more than its cap, leases nothing
// that does not run, and what is quick waits for nothing.
func TestCapKeepsSlotsForOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.cappedFlow(m, map[string]time.Duration{"slow": time.Minute, "quick": time.Millisecond})
		r.serve(func(c *Config) { c.MaxActivities, c.MaxInFlight = 4, map[string]int{"slow": 3} })
		start := time.Now()
		for i := range 30 {
			r.begin(fmt.Sprint("slow", i), "flow", "slow")
		}
		r.pass(time.Second)
		for i := range 100 {
			id := fmt.Sprint("quick", i)
			r.begin(id, "flow", "quick")
			want(r, "wait of the quick one", r.result(id), "0s")
			want(r, "tasks of the slow one that are leased", r.leased("slow"), 3)
			r.pass(5 * time.Second)
		}
		for i := range 30 {
			r.result(fmt.Sprint("slow", i))
		}
		want(r, "most at a time", m.most["slow"], 3)
		want(r, "time for all", time.Since(start), 10*time.Minute)
	})
}

// TestCapsAreUsedUp: each activity has as many in flight as its cap allows, whatever the others have, and those
// without a cap share the rest.
func TestCapsAreUsedUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		takes := map[string]time.Duration{"one": time.Minute, "three": 7 * time.Second, "twenty": 11 * time.Second, "hundred": 13 * time.Second, "free": 17 * time.Second}
		r.cappedFlow(m, takes)
		r.serve(func(c *Config) {
			c.MaxActivities, c.MaxInFlight = 512, map[string]int{"one": 1, "three": 3, "twenty": 20, "hundred": 100}
		})
		for i := range 150 {
			for name := range takes {
				if name != "one" || i < 3 {
					r.begin(fmt.Sprint(name, i), "flow", name)
				}
			}
		}
		start := time.Now()
		for i := range 150 {
			for name := range takes {
				if name != "one" || i < 3 {
					r.result(fmt.Sprint(name, i))
				}
			}
		}
		for name, most := range map[string]int{"one": 1, "three": 3, "twenty": 20, "hundred": 100, "free": 150} {
			want(r, "most of "+name, m.most[name], most)
		}
		if took := time.Since(start); took > 50*7*time.Second+time.Minute {
			r.Errorf("150 of 7 s each, 3 at a time, took %v", took)
		}
	})
}

// TestCapOfAll: an engine all of whose activities are at their caps closes, and one that has begun a claim before
// an attempt has ended claims the next.
func TestCapOfAll(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.cappedFlow(m, map[string]time.Duration{"slow": time.Minute})
		capped := func(c *Config) { c.MaxInFlight = map[string]int{"slow": 1} }
		r.serve(capped)
		for i := range 3 {
			r.begin(fmt.Sprint(i), "flow", "slow")
		}
		r.pass(time.Second)
		want(r, "in flight", m.now["slow"], 1)
		r.again(capped)
		for i := range 3 {
			r.result(fmt.Sprint(i))
		}
		want(r, "most at a time", m.most["slow"], 1)
	})
}

// TestCapOfAbandonedCode: code that does not return gives its place below the cap back with its slot.
func TestCapOfAbandonedCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		release := make(chan struct{})
		r.act("deaf", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			if string(t.Input) == "deaf" {
				<-release
			}
			return t.Input, nil
		})
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Activity("deaf", in, history.Activity{StartToClose: time.Minute, MaxAttempts: 1}))
		})
		r.serve(func(c *Config) { c.MaxInFlight = map[string]int{"deaf": 1} })
		start := time.Now()
		r.begin("d", "flow", "deaf")
		r.pass(time.Second)
		r.begin("e", "flow", "x")
		r.until("d", Failed)
		want(r, "result", r.result("e"), "x")
		want(r, "place free after", time.Since(start), time.Minute+returnWithin)
		close(release)
	})
}

// TestCapAndLimit: what a limit has admitted waits below its cap, and the limit counts it meanwhile.
func TestCapAndLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.limitedFlow(m, func([]byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) { l.Concurrency = 3 })}
		})
		r.serve(func(c *Config) { c.MaxInFlight = map[string]int{"act": 2} })
		for i := range 10 {
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		for i := range 10 {
			want(r, "result", r.result(fmt.Sprint(i)), "x")
		}
		want(r, "most at a time", m.most["x"], 2)
		r.nothingLeft()
	})
}

// TestCapsAreChecked when the engine is made.
func TestCapsAreChecked(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	defer s.Close()
	for _, most := range []int{0, -1} {
		_, err := New(Config{Store: s, MaxInFlight: map[string]int{"a": most}})
		checkErr(t, err, ErrInvalid, `activity "a"`, "at least 1")
	}
}
