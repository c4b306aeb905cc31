package timer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// occasion is what an envelope tells of: a timer that was due then, because of that call.
// No two calls make the same one.
type occasion struct {
	timer string
	call  int
	due   int64 // in milliseconds
}

func occasionOf(t *timer.Timer) occasion {
	return occasion{name(t.Tenant, t.Key), number(t), t.DueAt.UnixMilli()}
}

// seen is what has arrived at the sinks in the end.
type seen struct {
	envelopes map[string]arrival // by ID
	ids       map[occasion]string
	times     map[string]map[string]int // by sink and ID
}

// check compares what has arrived with what callers were told, when all should be over,
// and reports what is wrong.
func (w *faultWorld) check() {
	w.t.Helper()
	w.account.check(w)
	for _, p := range w.problems {
		w.t.Error(p)
	}
}

func (a *account) check(w *faultWorld) {
	s := a.collect(w.sinks)
	for id, e := range s.envelopes {
		for _, sink := range w.sinks {
			if sink.takes(e.TenantID) && s.times[sink.name][id] == 0 {
				a.problem("sink %s never got envelope %s of %s", sink.name, id, name(e.TenantID, e.event.ServiceCallID))
			}
		}
		if about := name(e.TenantID, e.event.ServiceCallID); a.timers[about] == nil {
			a.problem("envelope %s is of %s, which nobody has scheduled", id, about)
		}
	}
	client := w.service(w.store)
	for _, about := range slices.Sorted(maps.Keys(a.timers)) {
		before := len(a.problems)
		a.checkEnvelopes(about, s)
		a.checkTold(about, s)
		a.checkRecord(client, about, s, len(w.sinksOf(a.timers[about][0].tenant)))
		if len(a.problems) > before {
			a.problem("what was asked about %s:%s", about, a.story(about))
		}
	}
	a.checkQuiet(w.store)
}

// collect checks each envelope by itself: it is not early, it is the same each time, and
// there is no other one of the same occasion.
func (a *account) collect(sinks []*faultSink) *seen {
	s := &seen{envelopes: map[string]arrival{}, ids: map[occasion]string{}, times: map[string]map[string]int{}}
	for _, sink := range sinks {
		s.times[sink.name] = map[string]int{}
		for _, e := range sink.arrivals() {
			about := name(e.TenantID, e.event.ServiceCallID)
			what := occasion{about, e.call, e.event.DueAt.UnixMilli()}
			s.times[sink.name][e.ID]++
			if first, again := s.envelopes[e.ID]; !again {
				s.envelopes[e.ID] = e
			} else if first.Type != e.Type || first.TenantID != e.TenantID || first.CorrelationID != e.CorrelationID ||
				first.TimestampMs != e.TimestampMs || string(first.Payload) != string(e.Payload) {
				a.problem("envelope %s is not always the same: %s and %s", e.ID, first.Payload, e.Payload)
			}
			if id, other := s.ids[what]; other && id != e.ID {
				a.problem("two envelopes of one arming: %s and %s of %+v", id, e.ID, what)
			}
			s.ids[what] = e.ID
			if e.at.Before(e.event.DueAt) || e.event.FiredAt.Before(e.event.DueAt) || !e.Time().Equal(e.event.FiredAt) {
				a.problem("%s was due at %s, fired at %s, with a timestamp of %s, and arrived at %s",
					about, clock(e.event.DueAt), clock(e.event.FiredAt), clock(e.Time()), clock(e.at))
			}
		}
	}
	return s
}

// checkEnvelopes checks that somebody has asked for each envelope of a timer, and that
// nobody had been told otherwise by the time that it was made.
func (a *account) checkEnvelopes(about string, s *seen) {
	calls := a.timers[about]
	for what, id := range s.ids {
		if what.timer != about {
			continue
		}
		e := s.envelopes[id]
		owner, scheduled := -1, false
		for i, c := range calls {
			switch {
			case c.verb == "schedule" && c.call == what.call:
				scheduled = true
				if c.mayBeDue(e.event.DueAt) {
					owner = i
				}
			case c.verb == "snooze" && scheduled && c.mayBeDue(e.event.DueAt) && (c.err != nil || number(&c.told) == what.call):
				owner = i
			}
		}
		if owner < 0 {
			a.problem("nobody has asked for envelope %s, of call %d, due at %s", id, e.call, clock(e.event.DueAt))
			continue
		}
		for _, c := range calls[owner+1:] {
			if c.err == nil && e.event.FiredAt.After(c.ended) {
				a.problem("envelope %s, of call %d, is from %s, and at %s somebody was told: %v", id, e.call, clock(e.event.FiredAt), clock(c.ended), c)
			}
		}
	}
}

// checkTold checks that what a caller was told has come true.
func (a *account) checkTold(about string, s *seen) {
	calls := a.timers[about]
	armings := map[int64]string{} // IDs of envelopes
	for i, c := range calls {
		if c.err != nil || c.told.Version == 0 {
			continue
		}
		id := s.ids[occasionOf(&c.told)]
		if c.verb == "cancel" {
			if id != "" {
				a.problem("it was told that the timer is cancelled, and there is envelope %s: %v", id, c)
			}
			continue
		}
		if other := armings[c.told.Arming]; id != "" && other != "" && other != id {
			a.problem("arming %d has two envelopes: %s and %s", c.told.Arming, other, id)
		}
		if id != "" {
			armings[c.told.Arming] = id
		}
		if i == len(calls)-1 {
			if id == "" {
				a.problem("it never fired: %v", c)
			}
			continue
		}
		a.checkNext(c, calls[i+1], id)
	}
}

// checkNext checks what was told to the next caller after one who has armed a timer; id is
// that of the envelope that came of it, if one did.
func (a *account) checkNext(c, next *asked, id string) {
	same := next.told.Arming == c.told.Arming
	switch {
	case next.err == nil && next.told.Version == 0: // it says nothing
	case next.err == nil && next.verb == "cancel" && !same:
		a.problem("%v; and then it was not that arming which was cancelled: %v", c, next)
	case next.err == nil && next.arms() && same && id != "":
		a.problem("%v; and it fired, although it was moved: %v", c, next)
	case next.err == nil && next.arms() && next.told.Arming == c.told.Arming+1 && id == "":
		a.problem("%v; and it never fired, although it was armed again: %v", c, next)
	case next.err == nil && next.arms() && !same && next.told.Arming != c.told.Arming+1:
		a.problem("%v; and then armings were left out: %v", c, next)
	case errors.Is(next.err, timer.ErrState) && (id == "" || next.verb == "snooze"):
		a.problem("%v; envelope %q; and then: %v", c, id, next)
	case errors.Is(next.err, timer.ErrNotFound):
		a.problem("%v; and then it was gone: %v", c, next)
	}
}

// checkRecord checks what has become of a timer.
func (a *account) checkRecord(client *timer.Service, about string, s *seen, sinks int) {
	calls := a.timers[about]
	last := calls[len(calls)-1]
	t, err := client.Get(context.Background(), last.tenant, last.key)
	switch {
	case errors.Is(err, timer.ErrNotFound):
		for _, c := range calls {
			if c.err == nil && c.arms() {
				a.problem("%s is gone", about)
				break
			}
		}
		return
	case err != nil:
		a.problem("%s: %v", about, err)
		return
	case t.Status == timer.Armed:
		a.problem("%s has not fired: %+v", about, t)
	case t.Status == timer.Fired:
		if id := s.ids[occasionOf(&t)]; id != t.EnvelopeID || !t.FiredAt.Equal(s.envelopes[id].event.FiredAt) {
			a.problem("%s has fired with envelope %s, and envelope %q has arrived", about, t.EnvelopeID, id)
		}
		if len(t.Deliveries) != sinks {
			a.problem("%s has deliveries %+v, want one for each of %d sinks", about, t.Deliveries, sinks)
		}
		for _, d := range t.Deliveries {
			if d.State != outbox.Published || d.Attempts < 1 || d.At.Before(t.FiredAt) || d.Error != "" {
				a.problem("%s has delivery %+v after all is over", about, d)
			}
		}
	case s.ids[occasionOf(&t)] != "":
		a.problem("%s was cancelled, and has envelope %s", about, s.ids[occasionOf(&t)])
	}
	if last.err != nil || last.told.Version == 0 {
		return
	}
	if want := map[bool]timer.Status{true: timer.Fired, false: timer.Cancelled}[last.arms()]; t.Status != want || occasionOf(&t) != occasionOf(&last.told) {
		a.problem("%s is %s in the end: %+v", about, t.Status, t)
	}
}

// checkQuiet checks that nothing is left to do, and nothing went wrong for good.
func (a *account) checkQuiet(s store.Store) {
	stats, err := s.Stats(context.Background())
	if err != nil || stats.Leases > 0 {
		a.problem("%d leases are left: %v", stats.Leases, err)
	}
	for _, r := range stats.Routes {
		a.problem("%d messages for %s are left in queue %s", r.Pending, r.Route, r.Queue)
	}
	page, err := s.List(context.Background(), store.Query{Kind: store.KindQuarantine})
	if err != nil {
		a.problem("%v", err)
	}
	for _, r := range page.Records {
		a.problem("in quarantine, %s: %s of %s", r.Status, r.Tags[store.TagMessage], r.Tags[store.TagKey])
	}
}

// settled waits, in real time, until nothing is left to do.
func settled(s store.Store) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		stats, err := s.Stats(context.Background())
		if err == nil && len(stats.Routes) == 0 && stats.Leases == 0 {
			// What a commit has finished may be counted before it can be read. When a later
			// commit has returned, it can.
			later := store.Record{Key: store.RecordKey{Kind: "later", ID: "commit"}}
			return s.Commit(context.Background(), &store.Tx{PutRecords: []store.PutRecord{{Record: later, Expect: store.AnyVersion}}}) == nil
		}
		<-time.After(5 * time.Millisecond)
	}
	return false
}

// arrived returns how often each envelope has arrived at a sink, by the key of its timer.
func (s *faultSink) arrived() map[string]int {
	times := map[string]int{}
	for _, a := range s.arrivals() {
		times[strings.TrimPrefix(name(a.TenantID, a.event.ServiceCallID), "/")]++
	}
	return times
}
