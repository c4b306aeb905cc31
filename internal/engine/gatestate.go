package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// gateState is the record of a gate.
type gateState struct {
	limit history.Limit // name and key

	holders []gateHolder // what was admitted and has not left, oldest first

	// waiting is how many records of what waits there are, and head a time before which none of them ranks.
	waiting int
	head    time.Time

	// next is when the next token of the rate arrives, in nanoseconds since 1970, if all that were there are
	// used: the theoretical arrival time of the generic cell rate algorithm.
	next int64

	// look is when a message arrives that has the gate claimed; zero if none is on its way.
	look time.Time

	// admitted counts what was admitted since the record exists.
	admitted int64

	version int64 // of the record, 0 if there is none
}

// gateHolder is work that was admitted. missed is true if the last audit has not found it. One that was withdrawn
// while it ran keeps its unit until then at most.
type gateHolder struct {
	work   string
	entry  int32
	at     time.Time
	until  time.Time
	missed bool
}

// Statuses of a gate's record.
const (
	gateOpen = "open"
	gateBusy = "waiting" // something waits
)

// Numbers of the fields of a gate's record. Each is a number and a string; readers skip those that they do not
// know.
const (
	gateFieldLimit    = 1
	gateFieldHolder   = 2 // once for each
	gateFieldWaiting  = 3
	gateFieldNext     = 4
	gateFieldLook     = 5
	gateFieldAdmitted = 6
)

func (s *gateState) put(tenant string, now time.Time) store.PutRecord {
	out := append(make([]byte, 0, 96+64*len(s.holders)), gateFormat)
	field := func(number uint64, data []byte) {
		out = wire.AppendNumber(out, number)
		out = wire.AppendString(out, data)
	}
	field(gateFieldLimit, encodeLimits([]history.Limit{s.limit}))
	var scratch []byte
	for i := range s.holders {
		h := &s.holders[i]
		scratch = wire.AppendString(scratch[:0], h.work)
		scratch = wire.AppendNumber(scratch, uint64(h.entry))
		scratch = wire.AppendTimes(scratch, h.at, h.until)
		field(gateFieldHolder, wire.AppendFlag(scratch, h.missed))
	}
	status := gateOpen
	if s.waiting > 0 {
		status = gateBusy
		field(gateFieldWaiting, wire.AppendTime(wire.AppendNumber(scratch[:0], uint64(s.waiting)), s.head))
	}
	field(gateFieldNext, wire.AppendNumber(scratch[:0], uint64(s.next)))
	field(gateFieldLook, wire.AppendTime(scratch[:0], s.look))
	field(gateFieldAdmitted, wire.AppendNumber(scratch[:0], uint64(s.admitted)))
	return store.PutRecord{Expect: s.version, Record: store.Record{
		Key: gateRecord(tenant, gateName(&s.limit)), Status: status, Name: s.limit.Name, Time: now, Body: out,
	}}
}

// gateOf decodes the record of a gate. The error matches store.ErrCorrupt if it cannot be read.
func gateOf(r store.Record) (s gateState, err error) {
	s.version = r.Version
	d := read(r.Body)
	d.Format(gateFormat)
	for d.Err == nil && len(d.Data) > 0 {
		number, f := d.Number(), read(d.Bytes())
		switch {
		case d.Err != nil:
		case number == gateFieldLimit:
			l := read(wire.AppendString(nil, f.Data))
			if limits := l.limits(); len(limits) == 1 {
				s.limit = limits[0]
			} else {
				d.Fail("not a limit")
			}
		case number == gateFieldHolder:
			s.holders = append(s.holders, gateHolder{work: f.String(), entry: f.Int32(), at: f.Time(), until: f.Time(), missed: f.Flag()})
		case number == gateFieldWaiting:
			s.waiting, s.head = int(f.Number()), f.Time()
		case number == gateFieldNext:
			s.next = int64(f.Number())
		case number == gateFieldLook:
			s.look = f.Time()
		case number == gateFieldAdmitted:
			s.admitted = int64(f.Number())
		}
		if f.Err != nil {
			d.Fail(f.Err.Error())
		}
	}
	if d.Err != nil {
		return s, fmt.Errorf("abide: record of gate %q: %w: %w", r.Key.ID, d.Err, store.ErrCorrupt)
	}
	return s, nil
}

// find returns the index of work that was admitted, or -1.
func (s *gateState) find(work string) int {
	return slices.IndexFunc(s.holders, func(h gateHolder) bool { return h.work == work })
}

// free removes an entry of work that was admitted.
func (s *gateState) free(work string, entry int32) {
	if i := s.find(work); i >= 0 && s.holders[i].entry == entry {
		s.holders = slices.Delete(s.holders, i, i+1)
	}
}

// firstUntil returns when the first unit of work that was withdrawn is free at the latest, zero if there is none.
func (s *gateState) firstUntil() (first time.Time) {
	for i := range s.holders {
		if until := s.holders[i].until; !until.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// idle reports whether the gate needs no record: it is that of a key, nothing is under way, and all tokens of the rate
// are there. The record of a gate without keys stays, see gateCommits.
func (s *gateState) idle(now time.Time) bool {
	return s.limit.Keyed && len(s.holders) == 0 && s.waiting == 0 && s.next <= now.UnixNano()
}

// rule is what a limit allows at present.
type rule struct {
	concurrency int
	every       int64 // nanoseconds from one token of the rate to the next, 0 for no rate
	burst       int64
	paused      bool
}

func ruleOf(l *history.Limit, paused bool) rule {
	r := rule{concurrency: int(l.Concurrency), paused: paused}
	if l.Rate > 0 && l.Per > 0 {
		r.every = max(int64(l.Per)/int64(l.Rate), 1)
		r.burst = max(int64(l.Burst), 1)
	}
	return r
}

// tokens returns how many tokens of the rate there are.
func (r *rule) tokens(next int64, now time.Time) int {
	if r.every == 0 {
		return math.MaxInt
	}
	ahead := next - now.UnixNano() // of what is there in the long run
	if ahead <= 0 {
		return int(r.burst)
	}
	return int(max(r.burst-(ahead+r.every-1)/r.every, 0))
}

// spend takes n tokens, and returns the next state.
func (r *rule) spend(next int64, now time.Time, n int) int64 {
	if r.every == 0 {
		return 0
	}
	return max(next, now.UnixNano()) + int64(n)*r.every
}

// refilled returns when there are n tokens, at most as many as there can be.
func (r *rule) refilled(next int64, n int) time.Time {
	n = min(n, int(r.burst))
	at := time.Unix(0, next-(r.burst-int64(n))*r.every).UTC()
	return at.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// room returns how many pieces of work may be admitted.
func (r *rule) room(s *gateState, now time.Time) int {
	switch {
	case r.paused:
		return 0
	case r.concurrency > 0:
		return min(max(r.concurrency-len(s.holders), 0), r.tokens(s.next, now))
	default:
		return r.tokens(s.next, now)
	}
}
