package engine

import (
	"strconv"

	"github.com/abidehq/abide/store"
)

// QueueActivities is the queue of activities.
const QueueActivities = "activities"

// QueueEntities is the queue of entities.
const QueueEntities = "entities"

// The other queues, and kinds of records.
const (
	queueTurns   = "turns"
	queueControl = "control"
	queueLimits  = "limits"

	kindInstance  = "instance"
	kindHeartbeat = "heartbeat"
	kindEntity    = "entity"
	kindLimit     = "limit"
	kindGate      = "gate"
	kindWaiting   = "waiting" // what waits at a gate
)

// Routes that are not those of an orchestration: see the package comment. A name of
// an orchestration cannot begin with a dot.
const (
	routeControl = ".control"
	routeParked  = ".parked"
	routeEnded   = ".ended"
	routeLimits  = ".limits"  // of gates
	routeLimited = ".limited" // of instances that wait for a limit
)

// IDs of messages of which a key has one at most.
const (
	idStart  = "start"
	idWake   = "wake"
	idParked = "parked"
	idExpire = "expire"
	idEnded  = "ended"
	idTask   = "task"
	idLook   = "look"
	idAdmit  = "admit"
)

// Ref names an instance.
type Ref struct {
	Tenant string
	ID     string
}

// String returns the reference for people.
func (r Ref) String() string {
	if r.Tenant == "" {
		return strconv.Quote(r.ID)
	}
	return strconv.Quote(r.Tenant + "/" + r.ID)
}

func (r Ref) key() store.Key {
	return store.Key{Queue: queueTurns, Tenant: r.Tenant, Name: r.ID}
}

// control is where things are asked about the instance.
func (r Ref) control() store.Key {
	return store.Key{Queue: queueControl, Tenant: r.Tenant, Name: r.ID}
}

func (r Ref) record() store.RecordKey {
	return store.RecordKey{Kind: kindInstance, Tenant: r.Tenant, ID: r.ID}
}

func refOf(key store.Key) Ref { return Ref{Tenant: key.Tenant, ID: key.Name} }

// Route returns the route of an orchestration.
func Route(name, version string) string {
	if version == "" {
		return name
	}
	return name + "@" + version
}

// taskKey names what an activity is run under: the event that asked for it.
func taskKey(ref Ref, run uint64, event int32) store.Key {
	return store.Key{Queue: QueueActivities, Tenant: ref.Tenant, Name: messageID(ref.ID, run, event)}
}

func heartbeatKey(task store.Key) store.RecordKey {
	return store.RecordKey{Kind: kindHeartbeat, Tenant: task.Tenant, ID: task.Name}
}

// messageID returns the ID of a message about an event of an execution. It is derived from the run and the
// event alone, so that every process that puts, moves or deletes the message, also after a crash, names
// the same one; and the run makes sure that no other execution of any instance has the same.
func messageID(prefix string, run uint64, event int32) string {
	b := make([]byte, 0, len(prefix)+28)
	b = append(b, prefix...)
	b = append(b, '/')
	b = strconv.AppendUint(b, run, 36)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(event), 10)
	return string(b)
}

// Prefixes of message IDs.
const (
	prefixActivity = "a" // an activity's completion
	prefixDeadline = "d" // an activity's time to close is up
	prefixTimer    = "t"
	prefixChild    = "c" // a child's completion
	prefixEvent    = "e"
	prefixControl  = "x"
	prefixHanded   = "h/" // what the control queue has handed to a turn
	prefixOrphan   = "o"  // a parent's end, for its child
	prefixEntity   = "n"  // the answer of an entity
	prefixSignal   = "s"  // a signal of a client or of another entity
	prefixOperated = "i"  // an operation or a request for a lock, of an instance
	prefixUnlock   = "u"  // the release of a lock
)
