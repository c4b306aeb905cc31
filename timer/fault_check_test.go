package timer_test

import (
	"context"
	"errors"
	"strings"

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
	w.T.Helper()
	w.ledger.check(w)
	w.Report(w.T)
}

func (a *ledger) check(w *faultWorld) {
	s := a.collect(w.sinks)
	for id, e := range s.envelopes {
		for _, sink := range w.sinks {
			if sink.takes(e.TenantID) && s.times[sink.name][id] == 0 {
				a.Problem("sink %s never got envelope %s of %s", sink.name, id, name(e.TenantID, e.event.ServiceCallID))
			}
		}
		if about := name(e.TenantID, e.event.ServiceCallID); a.Find(about) == nil {
			a.Problem("envelope %s is of %s, which nobody has scheduled", id, about)
		}
	}
	client := w.service(w.Store)
	for _, about := range a.Keys() {
		before := len(a.Problems())
		a.checkEnvelopes(about, s)
		a.checkTold(about, s)
		a.checkRecord(client, about, s, len(w.sinksOf((*a.Find(about))[0].tenant)))
		if len(a.Problems()) > before {
			a.Problem("what was asked about %s:%s", about, a.story(about))
		}
	}
	a.checkQuiet(w.Store)
}

// collect checks each envelope by itself: it is not early, it is the same each time, and
// there is no other one of the same occasion.
func (a *ledger) collect(sinks []*faultSink) *seen {
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
				a.Problem("envelope %s is not always the same: %s and %s", e.ID, first.Payload, e.Payload)
			}
			if id, other := s.ids[what]; other && id != e.ID {
				a.Problem("two envelopes of one arming: %s and %s of %+v", id, e.ID, what)
			}
			s.ids[what] = e.ID
			if e.at.Before(e.event.DueAt) || e.event.FiredAt.Before(e.event.DueAt) || !e.Time().Equal(e.event.FiredAt) {
				a.Problem("%s was due at %s, fired at %s, with a timestamp of %s, and arrived at %s",
					about, clock(e.event.DueAt), clock(e.event.FiredAt), clock(e.Time()), clock(e.at))
			}
		}
	}
	return s
}

// checkEnvelopes checks that each envelope of a timer was asked for by a call, and that no
// call had returned otherwise by the time that it was made.
func (a *ledger) checkEnvelopes(about string, s *seen) {
	calls := *a.Find(about)
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
			a.Problem("nobody has asked for envelope %s, of call %d, due at %s", id, e.call, clock(e.event.DueAt))
			continue
		}
		for _, c := range calls[owner+1:] {
			if c.err == nil && e.event.FiredAt.After(c.ended) {
				a.Problem("envelope %s, of call %d, is from %s, and at %s a call returned: %v", id, e.call, clock(e.event.FiredAt), clock(c.ended), c)
			}
		}
	}
}

// checkTold checks that what a caller was told has come true.
func (a *ledger) checkTold(about string, s *seen) {
	calls := *a.Find(about)
	armings := map[int64]string{} // IDs of envelopes
	for i, c := range calls {
		if c.err != nil || c.told.Version == 0 {
			continue
		}
		id := s.ids[occasionOf(&c.told)]
		if c.verb == "cancel" {
			if id != "" {
				a.Problem("it was told that the timer is cancelled, and there is envelope %s: %v", id, c)
			}
			continue
		}
		if other := armings[c.told.Arming]; id != "" && other != "" && other != id {
			a.Problem("arming %d has two envelopes: %s and %s", c.told.Arming, other, id)
		}
		if id != "" {
			armings[c.told.Arming] = id
		}
		if i == len(calls)-1 {
			if id == "" {
				a.Problem("it never fired: %v", c)
			}
			continue
		}
		a.checkNext(c, calls[i+1], id)
	}
}

// checkNext checks what was told to the next caller after one who has armed a timer; id is
// that of the envelope that came of it, if one did.
func (a *ledger) checkNext(c, next *asked, id string) {
	same := next.told.Arming == c.told.Arming
	switch {
	case next.err == nil && next.told.Version == 0: // it says nothing
	case next.err == nil && next.verb == "cancel" && !same:
		a.Problem("%v; and then it was not that arming which was cancelled: %v", c, next)
	case next.err == nil && next.arms() && same && id != "":
		a.Problem("%v; and it fired, although it was moved: %v", c, next)
	case next.err == nil && next.arms() && next.told.Arming == c.told.Arming+1 && id == "":
		a.Problem("%v; and it never fired, although it was armed again: %v", c, next)
	case next.err == nil && next.arms() && !same && next.told.Arming != c.told.Arming+1:
		a.Problem("%v; and then armings were left out: %v", c, next)
	case errors.Is(next.err, timer.ErrState) && (id == "" || next.verb == "snooze"):
		a.Problem("%v; envelope %q; and then: %v", c, id, next)
	case errors.Is(next.err, timer.ErrNotFound):
		a.Problem("%v; and then it was gone: %v", c, next)
	}
}

// checkRecord checks what has become of a timer.
func (a *ledger) checkRecord(client *timer.Service, about string, s *seen, sinks int) {
	calls := *a.Find(about)
	last := calls[len(calls)-1]
	t, err := client.Get(context.Background(), last.tenant, last.key)
	switch {
	case errors.Is(err, timer.ErrNotFound):
		for _, c := range calls {
			if c.err == nil && c.arms() {
				a.Problem("%s is gone", about)
				break
			}
		}
		return
	case err != nil:
		a.Problem("%s: %v", about, err)
		return
	case t.Status == timer.Armed:
		a.Problem("%s has not fired: %+v", about, t)
	case t.Status == timer.Fired:
		if id := s.ids[occasionOf(&t)]; id != t.EnvelopeID || !t.FiredAt.Equal(s.envelopes[id].event.FiredAt) {
			a.Problem("%s has fired with envelope %s, and envelope %q has arrived", about, t.EnvelopeID, id)
		}
		if len(t.Deliveries) != sinks {
			a.Problem("%s has deliveries %+v, want one for each of %d sinks", about, t.Deliveries, sinks)
		}
		for _, d := range t.Deliveries {
			if d.State != outbox.Published || d.Attempts < 1 || d.At.Before(t.FiredAt) || d.Error != "" {
				a.Problem("%s has delivery %+v after all is over", about, d)
			}
		}
	case s.ids[occasionOf(&t)] != "":
		a.Problem("%s was cancelled, and has envelope %s", about, s.ids[occasionOf(&t)])
	}
	if last.err != nil || last.told.Version == 0 {
		return
	}
	if want := map[bool]timer.Status{true: timer.Fired, false: timer.Cancelled}[last.arms()]; t.Status != want || occasionOf(&t) != occasionOf(&last.told) {
		a.Problem("%s is %s in the end: %+v", about, t.Status, t)
	}
}

// checkQuiet checks that nothing is left to do, and nothing went wrong for good.
func (a *ledger) checkQuiet(s store.Store) {
	stats, err := s.Stats(context.Background())
	if err != nil || stats.Leases > 0 {
		a.Problem("%d leases are left: %v", stats.Leases, err)
	}
	for _, r := range stats.Routes {
		a.Problem("%d messages for %s are left in queue %s", r.Pending, r.Route, r.Queue)
	}
	page, err := s.List(context.Background(), store.Query{Kind: store.KindQuarantine})
	if err != nil {
		a.Problem("%v", err)
	}
	for _, r := range page.Records {
		a.Problem("in quarantine, %s: %s of %s", r.Status, r.Tags[store.TagMessage], r.Tags[store.TagKey])
	}
}

// arrived returns how often each envelope has arrived at a sink, by the key of its timer.
func (s *faultSink) arrived() map[string]int {
	times := map[string]int{}
	for _, a := range s.arrivals() {
		times[strings.TrimPrefix(name(a.TenantID, a.event.ServiceCallID), "/")]++
	}
	return times
}
