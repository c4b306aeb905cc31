package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestADeadSinkIsLeftAlone: what waits for it waits with it, and it is found out soon that
// it is back.
func TestADeadSinkIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(errDown)
		r.run(func(c *outbox.Config) { c.Sinks[0].Publishers, c.Sinks[0].Batch = 1, 1 })
		for n := range 500 {
			r.put(n)
		}
		rig.Pass(time.Minute)
		calls := len(r.sink.Calls())
		// 100 ms, 200, 400, and so on up to 5 s: about 17 in a minute.
		if calls < 10 || calls > 20 {
			t.Errorf("it was tried %d times in a minute", calls)
		}
		tried := 0
		for n := range 500 {
			if m, _ := r.waiting(n); m.Attempt > 0 {
				tried++
			}
		}
		if tried > calls {
			t.Errorf("%d envelopes have lost an attempt to %d calls", tried, calls)
		}
		r.sink.Respond(nil)
		rig.Pass(5 * time.Second)
		if accepted := len(r.sink.Accepted()); accepted < 450 {
			t.Errorf("%d of 500 were published 5 s after it came back", accepted)
		}
		rig.Pass(2 * time.Hour)
		check.Equal(t, "envelopes in the end", len(r.sink.Accepted()), 500)
	})
}

// TestASinkThatAcceptsSomethingIsNotDead: one bad envelope does not slow down the others.
func TestASinkThatAcceptsSomethingIsNotDead(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(_ context.Context, list []bus.Envelope) error {
			outcomes := make([]error, len(list))
			for i, e := range list {
				if string(e.Payload) == "0" {
					outcomes[i] = errDown
				}
			}
			return bus.Join(outcomes)
		})
		r.put(0, 1)
		r.run()
		rig.Pass(0)
		r.put(2, 3, 4)
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 4)
	})
}

func TestAPanicIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(context.Context, []bus.Envelope) error { panic("oh dear") })
		r.run()
		r.put(1)
		rig.Pass(0)
		last := r.notes.last(t)
		check.Equal(t, "state", last.State, outbox.Retrying)
		if !strings.Contains(last.Err.Error(), "oh dear") || !strings.Contains(last.Err.Error(), `"sink"`) {
			t.Errorf("the error is %v", last.Err)
		}
		r.sink.Respond(nil)
		rig.Pass(time.Minute)
		check.Equal(t, "state", r.notes.last(t).State, outbox.Published)
	})
}

func TestAPublishThatTakesTooLongIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(ctx context.Context, _ []bus.Envelope) error { <-ctx.Done(); return ctx.Err() })
		r.run(func(c *outbox.Config) { c.Sinks[0].Timeout = 5 * time.Second })
		r.put(1)
		rig.Pass(5 * time.Second)
		last := r.notes.last(t)
		check.Equal(t, "state", last.State, outbox.Retrying)
		check.Equal(t, "at", last.At.Sub(r.Began), 5*time.Second)
		check.Error(t, last.Err, context.DeadlineExceeded)
	})
}

// TestAMalformedMessageIsInQuarantine, and keeps nobody from being published.
func TestAMalformedMessageIsInQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		for i, body := range [][]byte{nil, {99}, {1, 200}} {
			m := store.Message{Key: store.Key{Queue: outbox.Queue, Tenant: "acme", Name: fmt.Sprint("sink/", i)}, ID: "x", Route: "sink", Body: body}
			check.OK(t, r.Store.Commit(t.Context(), &store.Tx{Put: []store.Message{m}}))
		}
		r.put(1)
		r.run()
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		kept := r.Quarantine()
		check.Equal(t, "messages in quarantine", len(kept), 3)
		for _, record := range kept {
			check.Equal(t, "reason", record.Status, outbox.ReasonMalformed)
		}
	})
}

// TestLeasesAreRenewedWhileASinkIsSlow: nobody else publishes what it has.
func TestLeasesAreRenewedWhileASinkIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(context.Context, []bus.Envelope) error { <-time.After(50 * time.Second); return nil })
		for range 2 {
			r.run(func(c *outbox.Config) { c.LeaseDuration = 3 * time.Second })
		}
		r.put(1, 2, 3)
		rig.Pass(2 * time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 3)
		m, waits := r.waiting(1)
		check.Equal(t, "still waits", waits, false)
		check.Equal(t, "attempt", m.Attempt, 0)
	})
}

// TestStopWaitsForWhatIsUnderWay.
func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(context.Context, []bus.Envelope) error { <-time.After(8 * time.Second); return nil })
		stop := r.run()
		r.put(1)
		rig.Pass(time.Second)
		r.put(2)
		stop()
		check.Equal(t, "when it has stopped", time.Since(r.Began), 9*time.Second)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 2)
		check.Equal(t, "state", r.notes.last(t).State, outbox.Published)
		r.put(3)
		rig.Pass(time.Hour)
		if _, waits := r.waiting(3); !waits {
			t.Error("a relay that was stopped still runs")
		}
	})
}

// TestStopAbandonsWhatTakesTooLong: it is given back, and the attempt does not count. What
// was accepted is done.
func TestStopAbandonsWhatTakesTooLong(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(ctx context.Context, list []bus.Envelope) error {
			<-ctx.Done()
			outcomes := make([]error, len(list))
			for i, e := range list {
				if string(e.Payload) != "2" {
					outcomes[i] = ctx.Err()
				}
			}
			return bus.Join(outcomes)
		})
		r.put(1, 2, 3)
		stop := r.run(func(c *outbox.Config) { c.DrainTimeout, c.Sinks[0].Publishers = 4*time.Second, 1 })
		rig.Pass(time.Second)
		stop()
		check.Equal(t, "when it has stopped", time.Since(r.Began), 5*time.Second)
		for _, n := range []int{1, 3} {
			m, waits := r.waiting(n)
			if !waits || m.Attempt != 0 || m.VisibleAt.After(time.Now()) {
				t.Errorf("envelope %d waits: %v, with %d attempts, until %v", n, waits, m.Attempt, m.VisibleAt)
			}
		}
		if _, waits := r.waiting(2); waits {
			t.Error("what was accepted is published again")
		}
		r.sink.Respond(nil)
		r.run()
		rig.Pass(0) // it is free at once
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 3)
	})
}

func TestRunEndsWithItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		relay, err := outbox.New(outbox.Config{Store: s, Sinks: []outbox.Sink{{Name: "sink", Bus: &bus.Local{}}}})
		check.OK(t, err)
		done := make(chan error)
		go func() { done <- relay.Run(t.Context()) }()
		synctest.Wait()
		check.OK(t, s.Close())
		check.Error(t, <-done, store.ErrClosed)
	})
}

// TestTroubleWithTheStorePasses: it is tried again, and each envelope is published once.
func TestTroubleWithTheStorePasses(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.put(1, 2)
		broken := map[string]int{"Claim": 3, "Commit": 3}
		r.Store = storetest.NewFaulty(r.Store, func(c storetest.Call) storetest.Fault {
			if broken[c.Method]--; broken[c.Method] >= 0 {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		r.run(func(c *outbox.Config) { c.Sinks[0].Publishers = 1 })
		rig.Pass(20 * time.Second)
		accepted, calls := len(r.sink.Accepted()), len(r.sink.Calls())
		check.Equal(t, "envelopes", accepted, 2)
		check.Equal(t, "calls", calls, 1)
		if _, waits := r.waiting(1); waits {
			t.Error("it was not settled")
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	t.Cleanup(func() { _ = s.Close() })
	sink := func(change func(*outbox.Sink)) func(*outbox.Config) {
		return func(c *outbox.Config) { change(&c.Sinks[0]) }
	}
	for name, tt := range map[string]struct {
		change func(*outbox.Config)
		says   string // none means that it is fine
	}{
		"nothing more":         {func(*outbox.Config) {}, ""},
		"no store":             {func(c *outbox.Config) { c.Store = nil }, "Config.Store"},
		"no sink":              {func(c *outbox.Config) { c.Sinks = nil }, "Config.Sinks"},
		"two of a name":        {func(c *outbox.Config) { c.Sinks = append(c.Sinks, c.Sinks[0]) }, `two sinks have the name "sink"`},
		"lease too short":      {func(c *outbox.Config) { c.LeaseDuration = store.MinLease - 1 }, "Config.LeaseDuration"},
		"lease too long":       {func(c *outbox.Config) { c.LeaseDuration = store.MaxLease + 1 }, "Config.LeaseDuration"},
		"negative drain":       {func(c *outbox.Config) { c.DrainTimeout = -1 }, "Config.DrainTimeout"},
		"no name":              {sink(func(s *outbox.Sink) { s.Name = "" }), "name of a sink is empty"},
		"longest name":         {sink(func(s *outbox.Sink) { s.Name = strings.Repeat("x", outbox.MaxSink) }), ""},
		"name too long":        {sink(func(s *outbox.Sink) { s.Name = strings.Repeat("x", outbox.MaxSink+1) }), "name of a sink has 65 bytes"},
		"all letters":          {sink(func(s *outbox.Sink) { s.Name = "Az09.-_" }), ""},
		"name with a slash":    {sink(func(s *outbox.Sink) { s.Name = "a/b" }), `'/' in its name`},
		"name with an umlaut":  {sink(func(s *outbox.Sink) { s.Name = "ä" }), `'ä' in its name`},
		"no bus":               {sink(func(s *outbox.Sink) { s.Bus = nil }), "has no Bus"},
		"batch too large":      {sink(func(s *outbox.Sink) { s.Batch = outbox.MaxBatch + 1 }), "Batch is 10001; 1 to 10000"},
		"negative batch":       {sink(func(s *outbox.Sink) { s.Batch = -1 }), "Batch is -1"},
		"too many publishers":  {sink(func(s *outbox.Sink) { s.Publishers = outbox.MaxPublishers + 1 }), "Publishers is 257"},
		"too many attempts":    {sink(func(s *outbox.Sink) { s.Retry.Attempts = outbox.MaxAttempts + 1 }), "Retry.Attempts is 10001"},
		"timeout too long":     {sink(func(s *outbox.Sink) { s.Timeout = outbox.MaxWait + 1 }), "Timeout is"},
		"wait too short":       {sink(func(s *outbox.Sink) { s.Retry.First = 1 }), "Retry.First is 1ns"},
		"cap below the first":  {sink(func(s *outbox.Sink) { s.Retry.First, s.Retry.Cap = 2*time.Second, time.Second }), "Retry.Cap is 1s; 2s to"},
		"first beyond the cap": {sink(func(s *outbox.Sink) { s.Retry.First = 2 * time.Hour }), ""},
	} {
		cfg := outbox.Config{Store: s, Sinks: []outbox.Sink{{Name: "sink", Bus: &bus.Local{}}}}
		tt.change(&cfg)
		_, err := outbox.New(cfg)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.says != "" && (!errors.Is(err, bus.ErrInvalid) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}
