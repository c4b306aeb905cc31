package replay

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/abidehq/abide/history"
)

// Mismatch is the error of code that does not do what its history says that it did: it did something else, it
// did more, or it did less in the same turn. It is an error of the deployment and not of the instance: with
// the code that made the history, or with a fix, the instance goes on.
type Mismatch struct {
	// Expected is what history says; its Kind is 0 if history says that the code did
	// no more in this turn.
	Expected history.Event

	// Did is what the code did instead; its Kind is 0 if it did nothing.
	Did history.Event

	// Source is where in the code that was, as file:line, or what it waits for.
	Source string
}

// Error says both sides.
func (m *Mismatch) Error() string {
	expected, did := "nothing more in this turn", "nothing"
	if m.Expected.Kind != 0 {
		expected = m.Expected.String()
	}
	if m.Did.Kind != 0 {
		did = m.Did.String()
	}
	return fmt.Sprintf("replay: the code differs from its history: history has [%s], the code did [%s] at %s", expected, did, m.Source)
}

// sameDeed reports whether the code did what history says. Compared is what decides how results find their
// way back: the kind, the name, the target and the event that is referred to. Inputs, times and texts for
// people may differ: they are in history, and what is there counts. [Execution.SameTimes] compares times
// as well.
func sameDeed(h, did *history.Event) bool {
	sameName := h.Name == did.Name || h.Kind == history.StatusSet
	return h.Kind == did.Kind && sameName && h.Target == did.Target && h.Ref == did.Ref
}

// sameTime reports whether a timer has the time that history says.
func sameTime(h, did *history.Event) bool {
	timer := h.Kind == history.TimerCreated || h.Kind == history.TimerMoved
	return !timer || h.At.Equal(did.At)
}

// OtherTime reports whether the code set the timer that history says, to another time. See
// [Execution.SameTimes].
func (m *Mismatch) OtherTime() bool { return m.Did.Kind != 0 && sameDeed(&m.Expected, &m.Did) }

func (x *Execution) different(h, did *history.Event) error {
	return &Mismatch{Expected: *h, Did: *did, Source: source(did)}
}

func (x *Execution) tooMuch(did *history.Event) error {
	return &Mismatch{Did: *did, Source: source(did)}
}

func (x *Execution) tooLittle() error {
	at := "its end"
	if waits := x.Waiting(); len(waits) > 0 {
		at = "waiting for " + strings.Join(waits, ", ")
	}
	return &Mismatch{Expected: x.expected[0], Source: at}
}

// ownPackages are those whose lines mean nothing to who wrote the orchestration.
var ownPackages = []string{
	"github.com/abidehq/abide.",
	"github.com/abidehq/abide/internal/replay.",
	"runtime.",
	"iter.",
}

// source returns the line of the orchestration that did it.
func source(did *history.Event) string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		own := false
		for _, p := range ownPackages {
			own = own || strings.HasPrefix(f.Function, p)
		}
		if !own && f.File != "" {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		switch { // the code is not on the stack
		case more:
		case did.Kind.Ends():
			return "its return"
		default:
			return "its cancellation"
		}
	}
}
