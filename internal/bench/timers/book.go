package timers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/bench"
)

// Marks tell the timers of a run apart.
const (
	markFar    = 'f' // not due in the run
	markFirst  = 'a' // the first one after the store was opened again
	markTimers = 't'
	markHerd   = 'h'
	markOther  = 'o'
)

// book is the ledgers of a run, by mark. It is what the subscriber writes to.
type book struct {
	run string // timers of an earlier run count for nothing

	mu      sync.RWMutex
	ledgers map[byte]*bench.Ledger
}

// expect opens a ledger for n timers.
func (b *book) expect(mark byte, n int, due func(i int) time.Time) *bench.Ledger {
	l := bench.NewLedger(n, due)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledgers == nil {
		b.ledgers = map[byte]*bench.Ledger{}
	}
	b.ledgers[mark] = l
	return l
}

// A key is as long as a UUID, begins at random and ends with the run, the mark and the
// number of the timer.
const (
	randomLength = 16
	digits       = 9
	keyLength    = randomLength + 1 + bench.RunLength + 1 + digits
)

// key returns the key of a timer.
func (b *book) key(mark byte, i int) string {
	key := make([]byte, 0, keyLength)
	key = fmt.Appendf(key, "%016x-", bench.Scramble(uint64(i)<<8|uint64(mark)))
	key = append(append(key, b.run...), mark)
	return string(fmt.Appendf(key, "%0*d", digits, i))
}

// parseKey is the inverse of key. It reports false for a timer of another run.
func (b *book) parseKey(key []byte) (mark byte, i int, ours bool) {
	if len(key) != keyLength || string(key[randomLength+1:][:bench.RunLength]) != b.run {
		return 0, 0, false
	}
	i, err := strconv.Atoi(string(key[keyLength-digits:]))
	return key[keyLength-digits-1], i, err == nil
}

// note is the subscriber.
func (b *book) note(_ context.Context, e bus.Envelope) error {
	now := time.Now()
	key, ok := bench.TimerKey(e.Payload)
	if !ok {
		return fmt.Errorf("bench: envelope %s does not begin with the key of its timer: %w", e.ID, bus.ErrPermanent)
	}
	mark, i, ours := b.parseKey(key)
	if !ours {
		return nil
	}
	b.mu.RLock()
	l := b.ledgers[mark]
	b.mu.RUnlock()
	if l != nil {
		l.Note(i, now, e.Time())
	}
	return nil
}
