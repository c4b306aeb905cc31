package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/errs"
)

// ErrInvalid is matched by the errors of events that are not valid, see [Event.Validate]. It is
// the same value as abide.ErrInvalid.
var ErrInvalid = errs.ErrInvalid

// Event is an event of a history. Its kind determines which fields are set; the others are
// zero.
type Event struct {
	// ID is the number of the event within its execution, from 1 without gaps.
	ID int32

	// Kind is the kind of the event: [ActivityScheduled], [TimerFired], …
	Kind Kind

	// Ref is the ID of the event that this one refers to.
	Ref int32

	// Name is the name of the orchestration, activity, timer, event, step, change, value or
	// operation of an entity, or a text for people.
	Name string

	// Target is the ID of another instance or of an entity.
	Target string

	// At is the time of a turn, a timer or a delayed operation of an entity, by the store's clock, in
	// whole milliseconds.
	At time.Time

	// Data is the encoded input, result or value of an event.
	Data Payload

	// Failure is the error of a failure.
	Failure *Failure

	// Start has the details of the start of an execution.
	Start *Start

	// Activity has the options of an activity.
	Activity *Activity

	// Child has the details of an instance that is started.
	Child *Child

	// Foreign has what another SDK knows of an event that its code recorded, nil for code in Go.
	Foreign *Foreign

	// Span is the span ID of a turn that is part of a trace, and the parent of the next
	// turn's. Zero means no trace.
	Span uint64

	// Build is the build under which the instance stalled, or that resumed it automatically.
	Build string

	// By is who did what the event records, if the caller has said so: the name of a user or
	// of a token.
	By string

	// Discarded is set on a PayloadCorrected that drops a received event, and on that event
	// when it is replayed.
	Discarded bool

	// Retired marks a ChangeMarked that code without the call skips during replay.
	Retired bool

	// HistoryEvents and HistoryBytes are the size of the history before a turn, and
	// Suggested is true if the code should continue as new. They are recorded so that replay
	// sees the same values.
	HistoryEvents int32
	HistoryBytes  int64
	Suggested     bool
}

// Failure is the recorded form of an error.
type Failure struct {
	// Type is the type of the error, by which a retry policy distinguishes errors.
	Type string `json:"type,omitempty"`

	// Message is the text for people.
	Message string `json:"message"`

	// Final is true if the error is not retryable.
	Final bool `json:"final,omitempty"`

	// Attempt is the number of attempts of an activity.
	Attempt int32 `json:"attempt,omitempty"`

	// Details are the encoded details of the error.
	Details Payload `json:"details,omitempty"`

	// Cause is the error that this one wraps.
	Cause *Failure `json:"cause,omitempty"`
}

// Limits of a failure, so that one always fits into an event.
const (
	maxMessage = 32 << 10
	maxDetails = 256 << 10
	maxCauses  = 8
)

// Bounded returns a copy of the failure, truncated to a size that fits into an event.
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

// Cut returns a text for people, truncated to a length that fits into an event.
func Cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + " …"
}

// Start has the details of the start of an execution.
type Start struct {
	Version   string `json:"version,omitempty"`
	Execution int32  `json:"execution"` // from 1

	// Parent is the ID of the parent, with the execution and the event that started the child.
	// Empty means that there is no parent.
	Parent          string `json:"parent,omitempty"`
	ParentExecution int32  `json:"parent_execution,omitempty"`
	ParentEvent     int32  `json:"parent_event,omitempty"`

	// ParentName is the name of the parent's orchestration. Histories of earlier releases do not have it.
	ParentName string `json:"parent_name,omitempty"`

	// Seed is the seed of the execution's random numbers. In JSON it is a string, because many
	// programs do not read large numbers exactly.
	Seed uint64 `json:"seed,string,omitempty"`
}

// Activity has the options of an activity. Durations are whole milliseconds; zero means none.
type Activity struct {
	StartToClose    time.Duration
	ScheduleToClose time.Duration
	Heartbeat       time.Duration

	MaxAttempts int32 // zero means no limit
	Backoff     time.Duration
	BackoffMax  time.Duration
	Factor      float64
	Final       []string // types of errors that are not retried

	// Limits are those under which it runs, and Priority is its place among what waits for them.
	Limits   []Limit
	Priority int32
}

// Child has the details of an instance that is started.
type Child struct {
	Version string `json:"version,omitempty"`

	// OnClose determines what happens to it if its parent ends first.
	OnClose ClosePolicy `json:"on_close,omitzero"`

	// Tags are those of the instance.
	Tags map[string]string `json:"tags,omitempty"`

	// Replace has the instance replace one with the same ID that has ended. Otherwise its ID must be new.
	Replace bool `json:"replace,omitempty"`

	// Limits are those under which the instance runs, from its start to its end, and Priority is its place
	// among what waits for them.
	Limits   []Limit `json:"limits,omitempty"`
	Priority int32   `json:"priority,omitempty"`
}

// Foreign has what the SDK of another language knows of an event, and Abide does not use: it is kept
// in history, and given back when the event is replayed.
type Foreign struct {
	// ID is the number that the SDK has given to what its code asked for. The answer refers to it.
	ID int32 `json:"id"`

	// Request is the ID of a call of an entity, or of a request for locks.
	Request string `json:"request,omitempty"`

	// Version is that of an activity, and Tags are those of an activity or a child.
	Version string            `json:"version,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`

	// TraceParent and TraceState are the trace context of what was asked for.
	TraceParent string `json:"trace_parent,omitempty"`
	TraceState  string `json:"trace_state,omitempty"`
}

// ClosePolicy determines what happens to a child whose parent ends first. The numbers are
// part of the wire format.
type ClosePolicy int32

// Policies for children whose parent ends first.
const (
	CancelChild    ClosePolicy = 0 // cancel the child, the default
	TerminateChild ClosePolicy = 1 // terminate the child
	AbandonChild   ClosePolicy = 2 // let the child run
)

var closePolicies = [...]string{CancelChild: "cancel", TerminateChild: "terminate", AbandonChild: "abandon"}

// String returns the policy in a word.
func (p ClosePolicy) String() string {
	if p < 0 || int(p) >= len(closePolicies) {
		return fmt.Sprintf("ClosePolicy(%d)", int(p))
	}
	return closePolicies[p]
}

// MarshalText returns the policy in a word.
func (p ClosePolicy) MarshalText() ([]byte, error) {
	if p < 0 || int(p) >= len(closePolicies) {
		return nil, fmt.Errorf("%v is not known: %w", p, ErrInvalid)
	}
	return []byte(closePolicies[p]), nil
}

// UnmarshalText is the inverse of MarshalText.
func (p *ClosePolicy) UnmarshalText(text []byte) error {
	for policy, word := range closePolicies {
		if word == string(text) {
			*p = ClosePolicy(policy)
			return nil
		}
	}
	return fmt.Errorf("%q is not a close policy: %q: %w", text, closePolicies, ErrInvalid)
}

// String returns a description of the event on one line, without its payload.
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
