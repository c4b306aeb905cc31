package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// meterOf watches what runs under a limit.
type meterOf struct {
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	began []time.Time
	order []string
}

func newMeterOf() *meterOf { return &meterOf{now: map[string]int{}, most: map[string]int{}} }

// run counts what runs under a key for as long as it takes.
func (m *meterOf) run(ctx context.Context, key, who string, takes time.Duration) {
	m.mu.Lock()
	m.now[key]++
	m.most[key] = max(m.most[key], m.now[key])
	m.began = append(m.began, time.Now())
	m.order = append(m.order, who)
	m.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	m.mu.Lock()
	m.now[key]--
	m.mu.Unlock()
}

func (m *meterOf) ran() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.order)
}

// under is a limit of one unit, or of what else is said.
func under(change ...func(*history.Limit)) []history.Limit {
	l := history.Limit{Name: "stripe", Concurrency: 1}
	for _, f := range change {
		f(&l)
	}
	return []history.Limit{l}
}

// limitedFlow registers an orchestration "flow" that calls the activity "act" under limits, which takes a second.
func (r *rig) limitedFlow(m *meterOf, how func(in []byte) history.Activity) {
	r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
		how := how(in)
		if how.MaxAttempts == 0 {
			how.MaxAttempts = 1
		}
		return outcome(c, c.Activity("act", in, how))
	})
	r.act("act", func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
		m.run(ctx, string(t.Input), t.Ref.ID, time.Second)
		return t.Input, nil
	})
}

// nothingLeft checks that no gate of a key has a record, that nothing is under way at another, and that nothing waits.
func (r *rig) nothingLeft() {
	r.Helper()
	r.pass(time.Second)
	page, err := r.tape.List(r.Context(), store.Query{Kind: kindGate})
	r.must(err)
	for i := range page.Records {
		s, err := gateOf(page.Records[i])
		r.must(err)
		if s.limit.Keyed || len(s.holders) > 0 || s.waiting > 0 {
			r.Errorf("gate %s is left with %d under way and %d that wait", gateName(&s.limit), len(s.holders), s.waiting)
		}
		want(r, "messages for gate "+gateName(&s.limit), len(r.pending(gateKey("", gateName(&s.limit)))), 0)
	}
	want(r, "records of what waits", r.records(kindWaiting), 0)
}
