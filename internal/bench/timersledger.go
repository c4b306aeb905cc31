package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/bus"
)

// Marks tell the timers of a run apart.
const (
	markFar    = 'f' // not due in the run
	markFirst  = 'a' // the first one after the store was opened again
	markTimers = 't'
	markHerd   = 'h'
	markOther  = 'o'
)

// ledger is what a subscriber knows of the timers of a run.
type ledger struct {
	run string // timers of an earlier run count for nothing

	mu    sync.RWMutex
	books map[byte]*book
}

// book is about timers that are due in the run and have the same mark, by number.
type book struct {
	due       func(i int) time.Time
	published []atomic.Bool // who sets it writes what follows
	late      []time.Duration
	count     atomic.Int64 // of those that have written
	early     atomic.Int64
	again     atomic.Int64 // published more than once
}

func newLedger() *ledger {
	return &ledger{run: rand.Text()[:runLength], books: map[byte]*book{}}
}

// expect opens a book for n timers.
func (l *ledger) expect(mark byte, n int, due func(i int) time.Time) *book {
	b := &book{due: due, published: make([]atomic.Bool, n), late: make([]time.Duration, n)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.books[mark] = b
	return b
}

// A key is as long as a UUID, begins at random and ends with the run, the mark and the
// number of the timer.
const (
	randomLength = 16
	runLength    = 8
	digits       = 9
	keyLength    = randomLength + 1 + runLength + 1 + digits
)

// key returns the key of a timer.
func (l *ledger) key(mark byte, i int) string {
	key := make([]byte, 0, keyLength)
	key = fmt.Appendf(key, "%016x-", scramble(uint64(i)<<8|uint64(mark)))
	key = append(append(key, l.run...), mark)
	return string(fmt.Appendf(key, "%0*d", digits, i))
}

// parseKey is the inverse of key. It reports false for a timer of another run.
func (l *ledger) parseKey(key []byte) (mark byte, i int, ours bool) {
	if len(key) != keyLength || string(key[randomLength+1:][:runLength]) != l.run {
		return 0, 0, false
	}
	i, err := strconv.Atoi(string(key[keyLength-digits:]))
	return key[keyLength-digits-1], i, err == nil
}

// told is what an envelope's payload begins with. It is taken apart by hand, because what
// a subscriber does with it is not what is measured.
var told = []byte(`{"serviceCallId":"`)

// note is the subscriber.
func (l *ledger) note(_ context.Context, e bus.Envelope) error {
	now := time.Now()
	rest, ok := bytes.CutPrefix(e.Payload, told)
	key, _, found := bytes.Cut(rest, []byte{'"'})
	if !ok || !found {
		return fmt.Errorf("bench: envelope %s does not begin with the key of its timer: %w", e.ID, bus.ErrPermanent)
	}
	mark, i, ours := l.parseKey(key)
	if !ours {
		return nil
	}
	l.mu.RLock()
	b := l.books[mark]
	l.mu.RUnlock()
	if b != nil && i < len(b.late) {
		b.note(i, now, e.Time())
	}
	return nil
}

// note notes that a timer was published, by the clock of this machine, and fired, by that
// of the store.
func (b *book) note(i int, now, fired time.Time) {
	if b.published[i].Swap(true) {
		b.again.Add(1)
		return
	}
	due := b.due(i)
	b.late[i] = now.Sub(due)
	if fired.Before(due) {
		b.early.Add(1)
	}
	b.count.Add(1)
}

// check returns an error unless each timer was published once, and none early.
func (b *book) check() error {
	switch n := len(b.late); {
	case b.count.Load() != int64(n):
		return fmt.Errorf("bench: %d of %d timers were published", b.count.Load(), n)
	case b.early.Load() > 0:
		return fmt.Errorf("bench: %d of %d timers fired before they were due, by the clock of the store", b.early.Load(), n)
	case b.again.Load() > 0:
		return fmt.Errorf("bench: %d timers were published, and %d times one that was published before", n, b.again.Load())
	}
	return nil
}

// last returns when the last of the timers was published.
func (b *book) last() (last time.Time) {
	for i, late := range b.late {
		if at := b.due(i).Add(late); at.After(last) {
			last = at
		}
	}
	return last
}

// lateness returns how late they were.
func (b *book) lateness() *Histogram {
	h := &Histogram{}
	for _, late := range b.late {
		h.Record(late)
	}
	return h
}
