package target

import (
	"slices"
	"unicode/utf8"

	"github.com/abidehq/abide/action"
)

// keep is how much output is kept, in bytes. How much of it stays is up to the service,
// which cuts its middle out once more.
const keep = action.MaxOutput

// excerpt keeps the beginning and the end of what is written to it, so that it takes no
// more memory than what is kept, however much there is.
type excerpt struct {
	half  int    // how much is kept of either
	head  []byte // the beginning
	tail  []byte // the end: a ring, once it is full
	next  int    // where in the ring the next byte goes
	total int64
}

// newExcerpt returns one that keeps so many bytes.
func newExcerpt(most int) *excerpt { return &excerpt{half: most / 2} }

// Write takes all of p. It never fails.
func (e *excerpt) Write(p []byte) (int, error) {
	n := len(p)
	e.total += int64(n)
	k := min(e.half-len(e.head), len(p))
	e.head, p = append(e.head, p[:k]...), p[k:]
	if len(p) > e.half {
		p = p[len(p)-e.half:] // what is before would not stay
	}
	k = min(e.half-len(e.tail), len(p))
	e.tail, p = append(e.tail, p[:k]...), p[k:]
	for len(p) > 0 {
		k = copy(e.tail[e.next:], p)
		e.next, p = (e.next+k)%e.half, p[k:]
	}
	return n, nil
}

// fill puts what was kept into an outcome, with no halves of characters where the cut is.
func (e *excerpt) fill(out *action.Outcome) {
	head, tail := e.head, slices.Concat(e.tail[e.next:], e.tail[:e.next])
	if e.total > int64(len(head)+len(tail)) {
		head, tail = trimEnd(head), trimStart(tail)
	}
	out.Output = string(head) + string(tail)
	out.Cut = e.total - int64(len(out.Output))
}

// trimEnd cuts off a character that is not complete.
func trimEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i]; utf8.RuneStart(last) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimStart cuts off the rest of a character whose beginning is not there.
func trimStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
