package history

import "fmt"

// Kind says what an event is. The numbers are on disk: they never change, and are
// never used again.
type Kind int32

// What can happen. Behind each stands which fields of [Event] it has.
const (
	// TurnStarted begins a turn: At is the orchestration's time.
	TurnStarted Kind = 1

	// ExecutionStarted is the first event that the code sees: Name and Start say what
	// is executed, Data is its input.
	ExecutionStarted Kind = 2

	// ActivityScheduled asks for an activity: Name, Data (its input), Activity.
	ActivityScheduled Kind = 3
	// ActivityCompleted is its result: Ref, Data.
	ActivityCompleted Kind = 4
	// ActivityFailed is its last failure: Ref, Failure.
	ActivityFailed Kind = 5
	// ActivityCancelled is what the code gave up: Ref.
	ActivityCancelled Kind = 6

	// TimerCreated sets a timer: Name (may be empty), At.
	TimerCreated Kind = 7
	// TimerFired says that its time has come: Ref.
	TimerFired Kind = 8
	// TimerCancelled takes it back: Ref.
	TimerCancelled Kind = 9
	// TimerMoved gives it another time: Ref, At.
	TimerMoved Kind = 10
	// TimerMoveReceived is another time that it was given from outside: Ref, At.
	TimerMoveReceived Kind = 29

	// ChildStarted starts another instance that this one waits for: Name, Target,
	// Data, Child.
	ChildStarted Kind = 11
	// ChildCompleted is its result: Ref, Data.
	ChildCompleted Kind = 12
	// ChildFailed is how it failed: Ref, Failure.
	ChildFailed Kind = 13
	// ChildCancelled asks it to end: Ref.
	ChildCancelled Kind = 14
	// DetachedStarted starts another instance and forgets it: Name, Target, Data,
	// Child.
	DetachedStarted Kind = 15

	// EventReceived is an event that was raised: Name, Data.
	EventReceived Kind = 16
	// EventSent raises an event for another instance: Name, Target, Data.
	EventSent Kind = 17

	// StepCompleted is the result of code that ran inside the turn: Name, Data.
	StepCompleted Kind = 18
	// StepFailed is how it failed: Name, Failure.
	StepFailed Kind = 19

	// ChangeMarked says that the code after a change is what runs: Name, Retired.
	ChangeMarked Kind = 20
	// StatusSet says something about the instance to people: Name.
	StatusSet Kind = 21
	// ValueSet keeps a small value where others can read it: Name, Data.
	ValueSet Kind = 22

	// TurnYielded ends a turn so that what it did becomes durable before the code goes
	// on, in the next turn, from here: Name is empty after a step, and [Full] if the turn
	// has done as much as one commit should hold. Then no other coroutine runs before the
	// one that was stopped goes on.
	TurnYielded Kind = 30

	// ExecutionSuspended says that the instance was told to wait: Name (why). The code
	// does not learn of it, nor of the next three.
	ExecutionSuspended Kind = 31
	// ExecutionResumed says that it may go on: Build, if an engine resumed it by itself.
	ExecutionResumed Kind = 32
	// ParentEnded says that nobody waits for its result any more.
	ParentEnded Kind = 33
	// ExecutionStalled says that its code could not go on: Name (why), Build.
	ExecutionStalled Kind = 34

	// CancelRequested asks the code to come to an end: Name (why).
	CancelRequested Kind = 23

	// ExecutionCompleted, with its result in Data, ends the execution, as do the next
	// four.
	ExecutionCompleted Kind = 24
	// ExecutionFailed ends it with a Failure.
	ExecutionFailed Kind = 25
	// ExecutionCancelled ends it because it was asked to: Failure.
	ExecutionCancelled Kind = 26
	// ExecutionTerminated ends it without asking: Name (why).
	ExecutionTerminated Kind = 27
	// ExecutionContinued ends it and begins the next one: Name, Start, Data (the next
	// one's input).
	ExecutionContinued Kind = 28
)

// Full is the Name of a TurnYielded that ends a turn because of its size.
const Full = "full"

// kindNames are for people.
var kindNames = [...]string{
	TurnStarted:         "TurnStarted",
	ExecutionStarted:    "ExecutionStarted",
	ActivityScheduled:   "ActivityScheduled",
	ActivityCompleted:   "ActivityCompleted",
	ActivityFailed:      "ActivityFailed",
	ActivityCancelled:   "ActivityCancelled",
	TimerCreated:        "TimerCreated",
	TimerFired:          "TimerFired",
	TimerCancelled:      "TimerCancelled",
	TimerMoved:          "TimerMoved",
	ChildStarted:        "ChildStarted",
	ChildCompleted:      "ChildCompleted",
	ChildFailed:         "ChildFailed",
	ChildCancelled:      "ChildCancelled",
	DetachedStarted:     "DetachedStarted",
	EventReceived:       "EventReceived",
	EventSent:           "EventSent",
	StepCompleted:       "StepCompleted",
	StepFailed:          "StepFailed",
	ChangeMarked:        "ChangeMarked",
	StatusSet:           "StatusSet",
	ValueSet:            "ValueSet",
	CancelRequested:     "CancelRequested",
	ExecutionCompleted:  "ExecutionCompleted",
	ExecutionFailed:     "ExecutionFailed",
	ExecutionCancelled:  "ExecutionCancelled",
	ExecutionTerminated: "ExecutionTerminated",
	ExecutionContinued:  "ExecutionContinued",
	TimerMoveReceived:   "TimerMoveReceived",
	TurnYielded:         "TurnYielded",
	ExecutionSuspended:  "ExecutionSuspended",
	ExecutionResumed:    "ExecutionResumed",
	ParentEnded:         "ParentEnded",
	ExecutionStalled:    "ExecutionStalled",
}

// Known reports whether this version knows the kind.
func (k Kind) Known() bool {
	return k > 0 && int(k) < len(kindNames)
}

// String returns the kind's name.
func (k Kind) String() string {
	if k.Known() {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", int32(k))
}

// Incoming reports whether an event of this kind reaches the instance from outside.
// The others are what its code does.
func (k Kind) Incoming() bool {
	switch k {
	case TurnStarted, ExecutionStarted, ActivityCompleted, ActivityFailed, TimerFired, TimerMoveReceived,
		ChildCompleted, ChildFailed, EventReceived, CancelRequested, ExecutionTerminated:
		return true
	default:
		return k.Quiet()
	}
}

// Quiet reports whether an event of this kind reaches the instance and the code does
// not learn of it. Such events have turns of their own.
func (k Kind) Quiet() bool { return k >= ExecutionSuspended && k <= ExecutionStalled }

// Ends reports whether an event of this kind is the last one of an execution.
func (k Kind) Ends() bool { return k >= ExecutionCompleted && k <= ExecutionContinued }
