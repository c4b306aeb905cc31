package rows

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// storeTime estimates what the database's clock shows between its answers. Every deadline of
// the contract is one of the database's clock; the estimate only decides when to query.
//
// Invariants: now never returns less than the latest time that the database has returned,
// unless its clock was set back by more than store.MaxClockLead; and it advances with the
// monotonic clock of the machine, so that setting the machine's clock changes nothing.
//
// A question remembers the latest time when it was asked. The database answers after that, so that
// an earlier time in its answer shows that its clock was set back, however late the answer
// arrives; comparing answers with each other would take a slow answer for a clock set back.
//
// Its mutex is a leaf: nothing is called under it but the machine's clock. setBack is called
// without it.
type storeTime struct {
	clock    base.Clock
	made     time.Time // the origin of the monotonic readings
	follower *base.Follower
	setBack  func() // called, under no lock, when the database's clock was set back

	mu     sync.Mutex
	offset int64 // of the database's clock to the monotonic reading, in milliseconds
}

func newStoreTime(clock base.Clock) *storeTime {
	return &storeTime{clock: clock, made: clock.Now(), follower: base.NewFollower(store.MaxClockLead)}
}

// question is the state of the estimate when a query was sent.
type question struct {
	base.Question
	at time.Time // by the machine's clock
}

// ask returns a question. The query is sent after that.
func (t *storeTime) ask() question { return question{t.follower.Ask(), t.clock.Now()} }

// answer takes the time that the database returned for a question. If the answer took more
// than a second, the offset is measured at the time of the question: the answer may have
// been on its way for as long, or this process may have been suspended. An answer of before
// the clock was set back is ignored.
//
// The database has read its clock between the question and the answer, so that the offset is between
// that at the answer and that at the question. An estimate outside of these is corrected; one between
// them is as good as this answer, however long ago it was made.
func (t *storeTime) answer(q question, now int64) {
	if t.follower.Outdated(q.Question) {
		return
	}
	local := t.clock.Now()
	if local.Sub(q.at) > time.Second {
		local = q.at
	}
	least, most := now-t.monotonic(local), now+1-t.monotonic(q.at) // both clocks are cut to milliseconds
	_, back := t.follower.Answer(q.Question, now)
	t.mu.Lock()
	if back || t.offset < least || t.offset > most || q.Floor == 0 {
		t.offset = least
	}
	t.mu.Unlock()
	if back && t.setBack != nil {
		t.setBack()
	}
}

// ahead corrects the offset after a query that was sent at began and found nothing due
// before next: if next was due by the estimate already, the estimate is ahead.
func (t *storeTime) ahead(next, now int64, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next <= t.monotonic(began)+t.offset {
		t.offset = now - t.monotonic(began)
	}
}

// now returns about what the database's clock shows.
func (t *storeTime) now() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.follower.Ask().Floor, t.monotonic(t.clock.Now())+t.offset)
}

// monotonic returns a time in milliseconds since the estimate was made, by the monotonic
// reading of the clock if it has one.
func (t *storeTime) monotonic(at time.Time) int64 { return at.Sub(t.made).Milliseconds() }
