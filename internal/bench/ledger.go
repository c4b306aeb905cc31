package bench

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Ledger holds when numbered things are due, and how late each of them came. Note is safe
// for concurrent use; the others are called when it is not called any more.
type Ledger struct {
	Due func(i int) time.Time

	seen        []atomic.Bool   // the goroutine that sets it writes the two below
	late, fired []time.Duration // by the clock of this machine, and by that of the store
	count       atomic.Int64    // of those that are written
	again       atomic.Int64    // came more than once
}

// NewLedger returns a ledger for n things.
func NewLedger(n int, due func(i int) time.Time) *Ledger {
	return &Ledger{Due: due, seen: make([]atomic.Bool, n), late: make([]time.Duration, n), fired: make([]time.Duration, n)}
}

// Note notes that thing i came, now by the clock of this machine and fired by that of the
// store. The first time counts.
func (l *Ledger) Note(i int, now, fired time.Time) {
	if i < 0 || i >= len(l.seen) {
		return
	}
	//abide:allow lock many instances note this, and none reads it
	if l.seen[i].Swap(true) {
		//abide:allow lock many instances note this, and none reads it
		l.again.Add(1)
		return
	}
	due := l.Due(i)
	l.late[i], l.fired[i] = now.Sub(due), fired.Sub(due)
	//abide:allow lock many instances note this, and none reads it
	l.count.Add(1)
}

// Count returns how many came so far.
func (l *Ledger) Count() int64 { return l.count.Load() }

// Len returns how many there are.
func (l *Ledger) Len() int { return len(l.seen) }

// Again returns how often one came that had come before.
func (l *Ledger) Again() int64 { return l.again.Load() }

// Check returns an error unless all came, and none before it was due by the clock of the
// store.
func (l *Ledger) Check(things string) error {
	n, early := len(l.seen), 0
	for i := range l.fired {
		if l.seen[i].Load() && l.fired[i] < 0 {
			early++
		}
	}
	switch {
	case l.Count() != int64(n):
		return fmt.Errorf("bench: %d of %d %s came", l.Count(), n, things)
	case early > 0:
		return fmt.Errorf("bench: %d of %d %s came before they were due, by the clock of the store", early, n, things)
	}
	return nil
}

// Last returns when the last of them came.
func (l *Ledger) Last() (last time.Time) {
	for i, late := range l.late {
		if at := l.Due(i).Add(late); at.After(last) {
			last = at
		}
	}
	return last
}

// Lateness returns how late they came, by the clock of this machine and by that of the
// store.
func (l *Ledger) Lateness() (late, fired *Histogram) {
	late, fired = &Histogram{}, &Histogram{}
	for i := range l.late {
		late.Record(l.late[i])
		fired.Record(l.fired[i])
	}
	return late, fired
}

// Lead returns how long before the first of n things is due they should be put: margin times
// as long as it takes if count of them took so long.
func Lead(took time.Duration, count, n, margin int) time.Duration {
	return time.Second + time.Duration(margin)*(took/time.Duration(count))*time.Duration(n)
}
