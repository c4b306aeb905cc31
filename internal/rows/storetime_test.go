package rows

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// TestSlowAnswerKeepsTheEstimate: an answer that was on its way while time passed says less of the
// database's clock than what was known before. One that contradicts what was known corrects it.
func TestSlowAnswerKeepsTheEstimate(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.UnixMilli(1_800_000_000_000))
	st := newStoreTime(clock)
	at := func() int64 { return clock.Now().UnixMilli() }
	want := func(what string, now int64) {
		t.Helper()
		if got := st.now(); got != now {
			t.Errorf("%s: the database's clock is estimated as %d ms off", what, got-now)
		}
	}
	st.answer(st.ask(), at())
	clock.Advance(time.Minute)
	q, read := st.ask(), at()
	clock.Advance(time.Millisecond) // while the answer is on its way
	st.answer(q, read)
	want("a slow answer", at())

	const behind = 3 * time.Millisecond // the database's clock is slower, and has fallen behind
	clock.Advance(time.Minute)
	st.answer(st.ask(), at()-behind.Milliseconds())
	want("a slower clock", at()-behind.Milliseconds())

	clock.Advance(time.Minute)
	st.answer(st.ask(), at())
	want("a faster clock", at())
}
