package history

import (
	"fmt"
	"strings"
	"time"
)

// Event is one thing that happened. Which fields it has depends on its kind; the
// others are zero.
type Event struct {
	// ID counts the events of an execution from 1.
	ID int32

	Kind Kind

	// Ref is the ID of the event that this one is about.
	Ref int32

	// Name is that of the orchestration, activity, timer, event, step, change or value;
	// or words for people.
	Name string

	// Target is the ID of another instance.
	Target string

	// At is a time of the store's clock, in whole milliseconds.
	At time.Time

	// Data is an input, a result or what comes with an event, as the codec wrote it.
	Data []byte

	// Failure says what went wrong.
	Failure *Failure

	// Start says more about an execution that starts.
	Start *Start

	// Activity says how an activity is to be run.
	Activity *Activity

	// Child says more about an instance that is started.
	Child *Child

	// Span is that of a turn that is part of a trace, so that the next one can name it.
	Span uint64

	// Build identifies the program: the one under which the instance stalled, or that
	// resumed it by itself.
	Build string

	// Retired marks a ChangeMarked that code without the call skips when it replays.
	Retired bool

	// HistoryEvents and HistoryBytes are the size of the history before a turn, and
	// Suggested says that the code should continue as new. They are in history so that the
	// code sees the same when it replays.
	HistoryEvents int32
	HistoryBytes  int64
	Suggested     bool
}

// Failure is an error that has left the process in which it happened.
type Failure struct {
	// Type is the error's type, by which a retry policy tells errors apart.
	Type string

	// Message is the error's text.
	Message string

	// Final says that it is of no use to try again.
	Final bool

	// Attempt is how often an activity was tried.
	Attempt int32

	// Details are what the error carries, as the codec wrote them.
	Details []byte

	// Cause is the error that this one wraps.
	Cause *Failure
}

// Limits of a failure, so that one always fits into an event.
const (
	maxMessage = 32 << 10
	maxDetails = 256 << 10
	maxCauses  = 8
)

// Bounded returns the failure, cut to a size that fits into an event.
func (f *Failure) Bounded() *Failure { return f.bounded(maxCauses) }

func (f *Failure) bounded(depth int) *Failure {
	if f == nil || depth == 0 {
		return nil
	}
	b := *f
	b.Type, b.Message = Cut(b.Type), Cut(b.Message)
	if len(b.Details) > maxDetails {
		b.Details = nil // half of it could not be read
	}
	b.Cause = f.Cause.bounded(depth - 1)
	return &b
}

// Cut returns words for people, cut to a length that fits into an event.
func Cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + " …"
}

// Start says more about an execution that starts.
type Start struct {
	Version   string
	Execution int32 // 1 for the first one

	// Parent is the instance that waits for this one, and the event by which it was
	// started there. All are zero if nobody waits.
	Parent          string
	ParentExecution int32
	ParentEvent     int32

	// Seed is where the random numbers of the execution begin.
	Seed uint64
}

// Activity says how an activity is to be run. Times are whole milliseconds; zero
// means none.
type Activity struct {
	StartToClose    time.Duration
	ScheduleToClose time.Duration
	Heartbeat       time.Duration

	MaxAttempts int32 // zero means without end
	Backoff     time.Duration
	BackoffMax  time.Duration
	Factor      float64
	Final       []string // types of errors after which it is of no use to try again
}

// Child says more about an instance that is started.
type Child struct {
	Version string

	// OnClose says what happens to it when its parent ends first.
	OnClose OnClose
}

// OnClose is what happens to a child when its parent ends first. The numbers are on
// disk.
type OnClose int32

// What can happen to a child.
const (
	CancelChild    OnClose = 0
	TerminateChild OnClose = 1
	AbandonChild   OnClose = 2
)

// String returns the event in words, on one line, without what it carries.
func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v", e.ID, e.Kind)
	if e.Ref != 0 {
		fmt.Fprintf(&b, " of %d", e.Ref)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	if e.Target != "" {
		fmt.Fprintf(&b, " for %q", e.Target)
	}
	if !e.At.IsZero() {
		fmt.Fprintf(&b, " at %s", e.At.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if e.Failure != nil {
		fmt.Fprintf(&b, ": %s", e.Failure.Message)
	}
	return b.String()
}
