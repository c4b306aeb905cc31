package abide

import (
	"context"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/schema"
)

// Transport carries the calls of a [Client] to a store or to a server. A transport that is also
// an [Operator] offers what operators need, and one that is a [Watcher] streams changes.
//
// Wrap one to observe or refuse calls, and write one to fake a client in a test: see
// [ClientOver]. Requests and results are as documented at the methods of [Client]; references
// and filters have the name of the default tenant, in both directions.
type Transport interface {
	// Start starts instances in one commit: all of them or none.
	Start(ctx context.Context, requests []StartRequest) ([]Started, error)

	// Raise raises events in one commit: all of them or none.
	Raise(ctx context.Context, requests []RaiseRequest) ([]Raised, error)

	// Get returns the current state of an instance, or [ErrNotFound].
	Get(ctx context.Context, ref Ref) (Info, error)

	// WaitChange waits until the revision of an instance is greater than after.
	WaitChange(ctx context.Context, ref Ref, after int64) (Info, error)

	// List returns a page of instances.
	List(ctx context.Context, filter Filter) (Page, error)

	// History returns events of an execution, at least one if there is one in the range, and
	// whether there are more.
	History(ctx context.Context, ref Ref, part HistoryRange) (h History, more bool, err error)

	// Control executes a command on an instance.
	Control(ctx context.Context, ref Ref, cmd Command) error
}

// StartRequest describes an instance to start. [Orchestration.Prepare] returns one.
type StartRequest struct {
	// Ref identifies the instance. Its ID must not be empty.
	Ref Ref

	// Orchestration and Version are the name and version of the orchestration.
	Orchestration string
	Version       string

	// Input is the encoded input.
	Input []byte

	Tags map[string]string

	// At delays the first turn until a time. After delays it by a duration from the start, by
	// the store's clock; then At is ignored.
	At    time.Time
	After time.Duration

	// IfExists determines what happens if an instance with that ID exists.
	IfExists ExistsPolicy

	// ReplaceIf, if it is not empty, is used instead of IfExists: an existing instance is replaced
	// if its status is among these, see [ReplaceIf], and is [ErrExists] otherwise.
	ReplaceIf []Status

	// Limits are those under which the instance runs, see [Under], and Priority is its place among what waits
	// for them, see [Priority].
	Limits   []history.Limit
	Priority int

	// Unchecked starts an orchestration that no worker has ever registered, and with any input,
	// see [Unchecked].
	Unchecked bool

	// schema is that of the type of which Input was encoded.
	schema *schema.Schema

	// newID is true if the ID was made for this request: no instance can have it.
	newID bool
}

// ExistsPolicy determines what a start does if an instance with that ID exists.
type ExistsPolicy int

// Exists policies.
const (
	ExistsReturn  ExistsPolicy = iota // return the existing instance, the default
	ExistsReject                      // return [ErrExists]
	ExistsReplace                     // replace an instance that has ended, return one that has not
)

// RaiseRequest describes an event to raise. [Event.Prepare] returns one.
type RaiseRequest struct {
	// Ref identifies the instance that receives the event.
	Ref Ref

	// Event is the name of the event, and Data its encoded value.
	Event string
	Data  []byte

	// ID is a deduplication ID, see [ID]. Empty means none.
	ID string

	// IfAwaited drops the event unless the instance waits for it, see [IfAwaited].
	IfAwaited bool

	// KeepFor is how long the event is kept for an instance that does not exist, see [KeepFor].
	KeepFor time.Duration

	// MustExist refuses the event if the instance does not exist, see [MustExist]. IgnoreEnded
	// drops the event if the instance has ended, see [IgnoreEnded].
	MustExist   bool
	IgnoreEnded bool

	// Unchecked raises the event with any payload, see [Unchecked].
	Unchecked bool
}

// Raised is the outcome of a [RaiseRequest].
type Raised struct {
	Outcome Outcome

	// Status is the status of the instance when the event was raised, and Awaited has the names
	// of the events that it waited for. Both are empty if the instance did not exist or the
	// event was raised unchecked.
	Status  Status
	Awaited []string
}

// Outcome is what an event found when it was raised. The instance may change before the event is
// delivered: an instance that waits for it may end first, for example because its timeout expires
// at the same moment.
type Outcome string

// Outcomes of events.
const (
	// OutcomeAwaited means that the instance waits for the event.
	OutcomeAwaited Outcome = "awaited"

	// OutcomeKept means that the instance does not wait for the event; it is kept until it does.
	OutcomeKept Outcome = "kept"

	// OutcomeDropped means that the instance does not wait for the event, which is dropped,
	// see [IfAwaited].
	OutcomeDropped Outcome = "dropped"

	// OutcomeNoInstance means that there is no such instance; the event is kept until it is
	// started, see [KeepFor].
	OutcomeNoInstance Outcome = "no-instance"

	// OutcomeEnded means that the instance has ended and the event is dropped, see [IgnoreEnded].
	OutcomeEnded Outcome = "ended"

	// OutcomeUnknown is the outcome of an event that was raised unchecked.
	OutcomeUnknown Outcome = ""
)

// Started is the outcome of a [StartRequest].
type Started struct {
	Ref Ref

	// Existed is true if an instance with that ID existed, and none was started.
	Existed bool

	// Unserved is true if no live worker runs the orchestration: the instance waits for one.
	Unserved bool

	// Revision is the revision of the instance that was started: [Client.WaitChange] waits for a
	// later one. It is 0 if it existed, or has ended already.
	Revision int64
}

// Command is a change of an instance that [Transport.Control] makes. Each verb has a method of
// [Client] that documents it.
type Command struct {
	Verb Verb

	// Reason is why an instance is cancelled, terminated or suspended.
	Reason string

	// Result is the encoded result of an instance that is terminated. Recursive terminates or deletes
	// its children too.
	Result    []byte
	Recursive bool

	// RestartID is the ID of the new instance that VerbRestart starts. If it is empty, or that of the
	// instance, the instance itself is restarted.
	RestartID string

	// Timer is the name of the timers that VerbMoveTimer moves, and At when they fire.
	Timer string
	At    time.Time

	// Event is the last event that VerbFork copies, and ForkID the ID of the new instance.
	Event  int
	ForkID string

	// Correction is what VerbCorrect does.
	Correction Correction
}

// Correction replaces the payload of an event, or drops the event, see [Client.Correct].
type Correction struct {
	// Event is the ID of an event in the history of the latest execution, or Message the ID of
	// an undelivered message, see [Client.Undelivered]. If neither is set, the payload is the
	// one that made the instance stall, see [Info.BadPayload].
	Event   int
	Message string

	// Data is the encoded payload. Discard drops the event instead: only events that were raised
	// can be dropped.
	Data    []byte
	Discard bool

	// Unchecked accepts any payload, see [Unchecked].
	Unchecked bool
}

// Verb is what a [Command] does.
type Verb string

// Verbs.
const (
	VerbCancel    Verb = "cancel"
	VerbTerminate Verb = "terminate"
	VerbSuspend   Verb = "suspend"
	VerbResume    Verb = "resume"
	VerbRestart   Verb = "restart"
	VerbRewind    Verb = "rewind"
	VerbFork      Verb = "fork"
	VerbMoveTimer Verb = "move-timer"
	VerbDelete    Verb = "delete"
	VerbCorrect   Verb = "correct"
)

// Filter selects instances. An instance has to match every field that is set.
type Filter struct {
	// Tenant selects the instances of a tenant. Nil means those of all tenants.
	Tenant *string

	// Orchestrations and Statuses select instances with one of the names, and with one of
	// the statuses.
	Orchestrations []string
	Statuses       []Status

	// From and To select by the time of the start: From <= time < To.
	From, To time.Time

	// Tags selects instances that have all of these tags.
	Tags map[string]string

	// Prefix selects instances whose ID begins with it.
	Prefix string

	// Parent selects the children of the instance with that ID, in its tenant. A child that
	// has not ended when its parent ends has no parent from then on. A child that was started by a
	// release without this field is not found until its next turn.
	Parent string

	// Build selects the instances that are pinned to a build, see [Builds].
	Build string

	// Descending returns the latest start first.
	Descending bool

	// Limit is the largest number of instances in a page, at most 10,000. Zero means 100.
	Limit int

	// Cursor is [Page.Next] of the page before. Empty means the first page.
	Cursor string
}

// Page is a page of a list of instances.
type Page struct {
	Instances []Info

	// Next is the cursor of the next page, and empty for the last page. A page may have fewer
	// instances than the limit, even none, and a Next: a call that finds few matches returns
	// after a short time.
	Next string
}

// HistoryRange selects a part of a history.
type HistoryRange struct {
	// Execution is the number of the execution. Zero means the latest one.
	Execution int

	// After is the ID of an event: the part begins after it. Zero means the first event.
	After int

	// MaxBytes is about how much is returned, at least one event. Zero means that the
	// transport decides.
	MaxBytes int
}
