package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var _ store.Marked = (*Store)(nil)

var (
	clockScript      = newScript("clock", true, true, "head", "time", "clock")
	resetClockScript = newScript("reset the clock", true, false, "head", "time", "clock")
)

// ClockMark returns the latest time that is stored, and that of the server. The stored time
// may be ahead if the server's clock was set back, or a replica with another clock took over.
// Of several segments it is those of the one whose stored time is furthest ahead.
func (s *Store) ClockMark(ctx context.Context) (store.ClockMark, error) {
	return s.clockMark(ctx, clockScript, "look")
}

// ResetClockMark stores the time of the server.
func (s *Store) ResetClockMark(ctx context.Context) (store.ClockMark, error) {
	return s.clockMark(ctx, resetClockScript, "reset")
}

func (s *Store) clockMark(ctx context.Context, sc *script, verb string) (mark store.ClockMark, err error) {
	done, err := s.begin(ctx, sc.verb)
	if err != nil {
		return mark, err
	}
	defer done()
	marks := make([]store.ClockMark, len(s.segments))
	err = s.forAll(func(i int, seg *segment) (err error) {
		marks[i], err = s.segmentMark(ctx, seg, sc, verb)
		return err
	})
	if err != nil {
		return mark, err
	}
	return slices.MaxFunc(marks, func(a, b store.ClockMark) int { return cmp.Or(cmp.Compare(a.Lead(), b.Lead()), a.Mark.Compare(b.Mark)) }), nil
}

// segmentMark returns the clock mark of a segment.
func (s *Store) segmentMark(ctx context.Context, seg *segment, sc *script, verb string) (mark store.ClockMark, err error) {
	m, err := s.eval(ctx, seg, sc, args{verb})
	if err != nil {
		return mark, err
	}
	a := read(m)
	a.text()
	if ms := a.num(); ms > 0 {
		mark.Mark = store.FromMillis(ms)
	}
	mark.Clock = store.FromMillis(a.num())
	if a.err != nil {
		err = fmt.Errorf("redisstore: %s: %w", sc.verb, a.err)
	}
	return mark, err
}

// noteClock logs that the clock of the server is behind the store's time.
func (s *Store) noteClock(ctx context.Context) {
	if mark, err := s.ClockMark(ctx); err == nil && mark.Lead() <= store.MaxClockLead {
		s.behind.Note(mark.Lead())
	}
}

func (s *Store) reportBehind(lead time.Duration) {
	s.logger.Warn("redisstore: clock of the server is behind the store's time", "lead", lead)
}
