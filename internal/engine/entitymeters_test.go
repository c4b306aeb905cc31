package engine

import (
	"testing"
	"time"
)

// TestMetricsOfEntities: operations by outcome, the batches that were committed, and what waited for a lock.
func TestMetricsOfEntities(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.flow("transfer", transfer)
		m.serve(m.configure, counters)
		m.signal("@counter@x", "add", "1")
		m.pass(0)
		m.signal("@counter@x", "fail", "")
		m.pass(0)
		expect := func(completed, failed, batches, waited float64) {
			m.Helper()
			got := m.read()
			for name, want := range map[string]float64{
				"entity.operations{outcome=completed}": completed, "entity.operations{outcome=failed}": failed,
				"entity.batch.duration": batches, "entity.waited": waited,
			} {
				if got[name] != want {
					m.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
		}
		expect(1, 1, 2, 0)
		m.begin("first", "transfer", "5") // holds @counter@a and @counter@b, and has called one
		m.pass(0)
		expect(2, 1, 3, 0)
		m.begin("second", "transfer", "7")
		m.signal("@counter@a", "add", "1000")
		m.pass(0)
		expect(2, 1, 3, 2)
		m.raise("first", "go on", "1")
		m.result("first")
		m.raise("second", "go on", "1")
		m.result("second")
		m.pass(0)
		expect(6, 1, 7, 2)
	})
}

// TestMetricsOfLocks: how long a request waited for all of its locks, whether or not the instance was in memory, and
// without the time for which it was suspended. A request that was not granted does not count.
func TestMetricsOfLocks(t *testing.T) {
	for name, change := range map[string]func(*Config){"cached": func(*Config) {}, "replayed": func(c *Config) { c.CacheSize = 1 }} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				m := newMeasured(r)
				m.flow("transfer", transfer)
				m.serve(m.configure, counters, change)
				expect := func(granted, seconds float64) {
					m.Helper()
					got := m.read()
					want(r, "locks granted", got["entity.lock.wait"], granted)
					want(r, "seconds waited", got["entity.lock.wait sum"], seconds)
				}
				m.begin("first", "transfer", "5")
				m.pass(0)
				expect(1, 0)
				m.begin("second", "transfer", "7")
				m.pass(0)
				m.begin("third", "transfer", "9")
				m.pass(time.Second)
				m.must(m.Terminate(m.Context(), Ref{ID: "third"}, ""))
				m.must(m.Suspend(m.Context(), Ref{ID: "second"}, ""))
				m.pass(2 * time.Second)
				expect(1, 0)
				m.raise("first", "go on", "1")
				m.result("first")
				m.pass(time.Hour)
				expect(1, 0)
				m.must(m.Resume(m.Context(), Ref{ID: "second"}))
				m.raise("second", "go on", "1")
				m.result("second")
				m.pass(0)
				expect(2, 3)
				if name == "replayed" {
					want(r, "replayed", m.read()["turn.replays"] > 0, true)
				}
			})
		})
	}
}
