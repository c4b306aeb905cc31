package store

import (
	"context"
	"time"
)

// Marked is a store that keeps the latest time that it has shown, so that the time does not
// run backwards for a process that opens it later. It is for tools.
type Marked interface {
	// ClockMark returns the mark, and what the clock shows.
	ClockMark(ctx context.Context) (ClockMark, error)

	// ResetClockMark sets the mark to what the clock shows, also if that is earlier. It is
	// for a store that nobody else uses, and returns what was there before. Times that are
	// stored with messages and records stay as they are.
	ResetClockMark(ctx context.Context) (ClockMark, error)
}

// ClockMark is the latest time that a store has shown, and what its clock shows.
type ClockMark struct {
	Mark  time.Time // zero if the store has shown none
	Clock time.Time
}

// Lead returns how far the mark is ahead of the clock; 0 if it is not.
func (m ClockMark) Lead() time.Duration { return max(m.Mark.Sub(m.Clock), 0) }

// Counts reports whether the mark is ahead of the clock, and the time of a store that is
// opened begins with it. One that is ahead by more than [MaxClockLead] is ignored.
func (m ClockMark) Counts() bool { return m.Lead() > 0 && m.Lead() <= MaxClockLead }
