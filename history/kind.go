package history

import "fmt"

// Kind is the kind of an event. The numbers are part of the wire format: they never change
// and are never reused. In JSON a kind is its name.
type Kind int32

// Kinds of events. Each comment names the fields of [Event] that are set.
const (
	// TurnStarted begins a turn: At is the orchestration's time; HistoryEvents, HistoryBytes,
	// Suggested and Span.
	TurnStarted Kind = 1

	// ExecutionStarted is the first event that the code sees: Name (of the orchestration),
	// Start, Data (its input).
	ExecutionStarted Kind = 2

	// ActivityScheduled schedules an activity: Name, Data (its input), Activity.
	ActivityScheduled Kind = 3
	// ActivityCompleted is its result: Ref, Data.
	ActivityCompleted Kind = 4
	// ActivityFailed is its last failure: Ref, Failure.
	ActivityFailed Kind = 5
	// ActivityCancelled abandons an activity: Ref.
	ActivityCancelled Kind = 6

	// TimerCreated sets a timer: Name (may be empty), At.
	TimerCreated Kind = 7
	// TimerFired is the expiry of a timer: Ref.
	TimerFired Kind = 8
	// TimerCancelled cancels a timer: Ref.
	TimerCancelled Kind = 9
	// TimerMoved reschedules a timer: Ref, At.
	TimerMoved Kind = 10
	// TimerMoveReceived reschedules a timer on behalf of an operator: Ref, At, By.
	TimerMoveReceived Kind = 29

	// ChildStarted starts a child, whose result comes back: Name, Target, Data, Child.
	ChildStarted Kind = 11
	// ChildCompleted is its result: Ref, Data.
	ChildCompleted Kind = 12
	// ChildFailed is its failure: Ref, Failure.
	ChildFailed Kind = 13
	// ChildCancelled requests its cancellation: Ref.
	ChildCancelled Kind = 14
	// DetachedStarted starts an instance whose result does not come back: Name, Target,
	// Data, Child.
	DetachedStarted Kind = 15

	// EventReceived is an event that was raised: Name, Data, By.
	EventReceived Kind = 16
	// EventSent raises an event for another instance: Name, Target, Data.
	EventSent Kind = 17

	// StepCompleted is the result of a step, which ran within the turn: Name, Data.
	StepCompleted Kind = 18
	// StepFailed is the failure of a step: Name, Failure.
	StepFailed Kind = 19

	// ChangeMarked records that the code runs with a change: Name, Retired.
	ChangeMarked Kind = 20
	// StatusSet sets the status text of the instance: Name.
	StatusSet Kind = 21
	// ValueSet publishes a value of the instance: Name, Data.
	ValueSet Kind = 22

	// TurnYielded ends a turn so that its events become durable before the code continues
	// here in the next turn: Name is empty after a step, and [Full] if the turn has reached
	// the size of one commit. Then the interrupted coroutine continues before any other.
	TurnYielded Kind = 30

	// ExecutionSuspended suspends the instance: Name (reason), By. The code does not see this
	// event, nor the next four.
	ExecutionSuspended Kind = 31
	// ExecutionResumed resumes the instance: By; Build, if an engine resumed it automatically.
	ExecutionResumed Kind = 32
	// ParentEnded records that the parent has ended and takes no result any more.
	ParentEnded Kind = 33
	// ExecutionStalled records that replay or the code could not continue: Name (reason),
	// Build.
	ExecutionStalled Kind = 34
	// PayloadCorrected replaces the payload of another event with Data, or drops a received
	// event if Discarded is set: Ref is the ID of the event if it is in history, otherwise Target
	// is the ID of the message that brings it. Name is that of the event, and By who did it. A
	// replay uses the corrected payload, see [Corrections].
	PayloadCorrected Kind = 35

	// EntityCalled calls an operation of an entity, whose result comes back: Name (of the
	// operation), Target (ID of the entity), Data (its input), At (when it is delivered; zero means
	// at once).
	EntityCalled Kind = 36
	// EntityCompleted is the result of a call: Ref, Data.
	EntityCompleted Kind = 37
	// EntityFailed is the failure of a call: Ref, Failure.
	EntityFailed Kind = 38
	// EntitySignaled signals an entity, whose result does not come back: Name, Target, Data, At.
	EntitySignaled Kind = 39
	// EntityLockRequested requests the locks of entities: Data is a JSON array of their IDs, sorted
	// and without duplicates.
	EntityLockRequested Kind = 40
	// EntityLocked grants all locks of a request: Ref.
	EntityLocked Kind = 41
	// EntityUnlocked releases a lock: Ref (the request), Target (the ID of the entity). Without a
	// target it withdraws a request that was not granted.
	EntityUnlocked Kind = 42

	// ExecutionRewound records that the instance, which had failed, was rewound to before its failure:
	// Name (reason), By, Failure. Target, if it is not empty, is the ID of the parent: it is the parent
	// that was rewound, and the instance goes on as its child. The code does not see this event.
	ExecutionRewound Kind = 43

	// CancelRequested requests cancellation: Name (reason), By.
	CancelRequested Kind = 23

	// ExecutionCompleted, with its result in Data, ends the execution, as do the next
	// four.
	ExecutionCompleted Kind = 24
	// ExecutionFailed ends it with a Failure.
	ExecutionFailed Kind = 25
	// ExecutionCancelled ends it after a request for cancellation: Failure.
	ExecutionCancelled Kind = 26
	// ExecutionTerminated ends it without running its code: Name (reason), By, Data (its result, if the
	// request had one).
	ExecutionTerminated Kind = 27
	// ExecutionContinued ends it and begins the next one: Name, Start, Data (the next
	// one's input).
	ExecutionContinued Kind = 28
)

// Full is the Name of a TurnYielded that ends a turn because of its size.
const Full = "full"

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
	PayloadCorrected:    "PayloadCorrected",
	EntityCalled:        "EntityCalled",
	EntityCompleted:     "EntityCompleted",
	EntityFailed:        "EntityFailed",
	EntitySignaled:      "EntitySignaled",
	EntityLockRequested: "EntityLockRequested",
	EntityLocked:        "EntityLocked",
	EntityUnlocked:      "EntityUnlocked",
	ExecutionRewound:    "ExecutionRewound",
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

// kinds are the kinds of events by their names.
var kinds = func() map[string]Kind {
	m := map[string]Kind{}
	for k := Kind(1); k.Known(); k++ {
		m[k.String()] = k
	}
	return m
}()

// MarshalText returns the kind's name. A kind that this version does not know is an error that
// matches [ErrInvalid].
func (k Kind) MarshalText() ([]byte, error) {
	if !k.Known() {
		return nil, fmt.Errorf("unknown kind %d: %w", int32(k), ErrInvalid)
	}
	return []byte(k.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(text []byte) error {
	kind, ok := kinds[string(text)]
	if !ok {
		return fmt.Errorf("unknown kind %q: %w", text, ErrInvalid)
	}
	*k = kind
	return nil
}

// Incoming reports whether an event of this kind reaches the instance from outside.
// Events of the other kinds are recorded by its code.
func (k Kind) Incoming() bool {
	switch k {
	case TurnStarted, ExecutionStarted, ActivityCompleted, ActivityFailed, TimerFired, TimerMoveReceived,
		ChildCompleted, ChildFailed, EventReceived, EntityCompleted, EntityFailed, EntityLocked, CancelRequested, ExecutionTerminated:
		return true
	default:
		return k.Quiet()
	}
}

// Quiet reports whether an event of this kind reaches the instance without being seen by
// its code. Such events have turns of their own.
func (k Kind) Quiet() bool {
	return k >= ExecutionSuspended && k <= PayloadCorrected || k == ExecutionRewound
}

// Ends reports whether an event of this kind is the last one of an execution.
func (k Kind) Ends() bool { return k >= ExecutionCompleted && k <= ExecutionContinued }
