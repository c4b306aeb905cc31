package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
)

// TestWaitingForLimitsIsMeasured: of a limit with keys it is the sum over its keys, of all tenants.
func TestWaitingForLimitsIsMeasured(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.limitedFlow(newMeterOf(), func(in []byte) history.Activity {
			if string(in) == "one" {
				return history.Activity{Limits: under()}
			}
			return history.Activity{Limits: under(func(l *history.Limit) { l.Name, l.Keyed, l.Key = "customer", true, string(in) })}
		})
		m.serve(m.configure)
		expect := func(when string, stripe, customer float64) {
			m.Helper()
			got := m.read()
			for name, want := range map[string]float64{"limit.waiting{limit=stripe}": stripe, "limit.waiting{limit=customer}": customer} {
				if got[name] != want {
					m.Errorf("%s: %s is %v, want %v", when, name, got[name], want)
				}
			}
		}
		if got := m.read(); len(got) == 0 {
			t.Error("nothing is measured")
		} else if _, there := got["limit.waiting{limit=stripe}"]; there {
			t.Error("a limit is measured at which nothing has waited")
		}
		m.must2(m.client().ChangeLimit(m.Context(), "", "stripe", LimitChange{Set: &history.Limit{Concurrency: 1}, Paused: new(true)}))
		m.must2(m.client().ChangeLimit(m.Context(), "", "customer", LimitChange{Set: &history.Limit{Concurrency: 1, Keyed: true}, Paused: new(true)}))
		for i := range 9 {
			m.begin(fmt.Sprint(i), "flow", []string{"one", "ann", "bob"}[i%3])
		}
		m.pass(askLimitsEvery)
		expect("paused", 3, 6)
		m.must2(m.client().ChangeLimit(m.Context(), "", "stripe", LimitChange{Paused: new(false)}))
		expect("soon after", 3, 6) // the store is not asked again
		m.pass(askLimitsEvery)
		expect("one is resumed", 0, 6)
		m.must2(m.client().ChangeLimit(m.Context(), "", "customer", LimitChange{Paused: new(false)}))
		m.pass(time.Minute)
		expect("both are resumed", 0, 0)
	})
}
