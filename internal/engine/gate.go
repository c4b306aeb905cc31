package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// A gate admits work under a limit: each limit has one in each tenant, and a keyed limit has one for each value of
// its key. A gate is a key of the queue "limits", which every engine serves. It has a record of what was admitted
// and has not ended, and for each piece of work that waits there is a record of its own, so that a million of them
// cost no memory and an operator can list them.
//
//	turn: ActivityScheduled ──enter──▶ gate ──admits: the task──▶ activities
//	                                     ▲                           │
//	                                     └────────── leave ──────────┘ in the commit of the outcome
//
// The claim of a gate is one batch: what entered, left and is admitted by it is one commit, with the record of the
// gate at the version that was read. So two processes never admit to the same unit, and how many may be under
// way is a rule about one record and not about processes. A unit belongs to the work: while its process is dead
// the task is still there and keeps it, and the attempt that ends gives it back, wherever it runs.
//
// # Work
//
// An activity enters with its task, which is put when it is admitted. An instance enters when it is started; its
// start message waits under a route that no engine serves (routeLimited), and when it is admitted a control request
// gives the key its route. An instance keeps its unit until it ends, also while it continues as new.
//
// Work under several limits passes their gates one after the other, in the order of their names: two pieces of
// work never wait for each other. The last gate admits.
//
// # Ends
//
//   - An attempt that ends, with a result or a failure, leaves in its own commit. One that is retried enters
//     again, by a message that is visible when the retry is due: what waits for a retry holds no unit.
//   - Work that is not wanted any more (cancelled, its instance has ended) is withdrawn: a message follows it
//     from gate to gate. Each gate handles its messages in order, so that it does not overtake the work. One at
//     which the task is found deletes it. As that may just be claimed, code may run until its process knows: then
//     it gives the units back, or the end of a lease does. Where the work is found waiting, it leaves the gates
//     that it has passed at once.
//   - If the process of an attempt is lost, the unit stays with the task. The process that claims it next has it
//     leave and enter again: it begins again, which takes another token of a rate.
//   - A gate at which work waits looks now and then whether what it has admitted is still there (audit). It is
//     not if a task was deleted from quarantine, or was run by an earlier release, which knows no limits.
//
// # Order
//
// What waits is admitted in the order of its rank: the time at which it began to wait, less an hour for each level
// of its priority. So what is urgent goes first, and nothing waits for ever.

// gateKind says what a message to a gate is about. The numbers are on disk.
type gateKind uint64

const (
	gateEnter    gateKind = 1
	gateLeave    gateKind = 2
	gateWithdraw gateKind = 3 // it leaves, or does not wait any more, and so at the gates that follow
	gateLook     gateKind = 4 // time has passed, or the rule has changed
)

// gateFormat is the first byte of messages to gates, and of their records.
const gateFormat = 1

// gateMessage is the body of a message to a gate.
type gateMessage struct {
	kind gateKind

	// work names a piece of work: see taskWork and instanceWork. limits are all of its limits in the order of
	// their gates, and at is which of them this gate is.
	work   string
	limits []history.Limit
	at     int

	// entry counts how often the work has entered: what leaves is the entry that it names, so that an attempt which
	// ends late does not give back the unit of the next one. claimed is true for work that is withdrawn after
	// its task was put: it may run until its process knows.
	entry   int32
	claimed bool

	// since is when the work began to wait, and declared when its code said what the rules of the limits are.
	since    time.Time
	declared time.Time
	priority int32

	// admits is put when the last gate admits the work.
	admits store.Message
}

func (m *gateMessage) encode() []byte {
	out := make([]byte, 0, 128+len(m.work)+len(m.admits.Body))
	out = append(out, gateFormat)
	out = wire.AppendNumber(out, uint64(m.kind))
	out = wire.AppendString(out, m.work)
	out = wire.AppendString(out, encodeLimits(m.limits))
	out = wire.AppendNumber(out, uint64(m.at))
	out = wire.AppendNumber(out, uint64(m.entry))
	out = wire.AppendFlag(out, m.claimed)
	out = wire.AppendTimes(out, m.since, m.declared)
	out = wire.AppendNumber(out, uint64(m.priority-minPriority))
	for _, s := range []string{m.admits.Key.Queue, m.admits.Key.Name, m.admits.ID, m.admits.Route} {
		out = wire.AppendString(out, s)
	}
	return wire.AppendString(out, m.admits.Body)
}

func decodeGateMessage(data []byte, tenant string) (m gateMessage, err error) {
	if len(data) > 0 && data[0] > gateFormat && data[0] <= maxFormat {
		return m, fmt.Errorf("abide: message of format %d to a gate, this release knows %d: %w", data[0], gateFormat, errLater)
	}
	r := read(data)
	r.Format(gateFormat)
	m.kind = gateKind(r.Number())
	m.work = r.String()
	m.limits = r.limits()
	m.at = int(r.Number())
	m.entry, m.claimed = r.Int32(), r.Flag()
	m.since, m.declared = r.Time(), r.Time()
	m.priority = int32(r.Number()) + minPriority
	m.admits.Key = store.Key{Queue: r.String(), Tenant: tenant, Name: r.String()}
	m.admits.ID, m.admits.Route, m.admits.Body = r.String(), r.String(), r.Bytes()
	switch {
	case r.Err != nil:
		return m, fmt.Errorf("abide: message to a gate: %w", r.Err)
	case m.kind > gateLook:
		return m, fmt.Errorf("abide: message of kind %d to a gate: %w", m.kind, errLater)
	case m.kind < gateEnter || m.kind != gateLook && m.at >= len(m.limits):
		return m, fmt.Errorf("abide: message of kind %d to a gate: %w", m.kind, errBody)
	}
	return m, nil
}

// encodeLimits and limits use the wire form of an event, which has limits.
func encodeLimits(limits []history.Limit) []byte {
	if len(limits) == 0 {
		return nil
	}
	return history.Append(nil, &history.Event{Kind: history.ActivityScheduled, Activity: &history.Activity{Limits: limits}})
}

func (r *reader) limits() []history.Limit {
	data := r.Bytes()
	if len(data) == 0 || r.Err != nil {
		return nil
	}
	e, err := history.Parse(data)
	if err != nil || e.Activity == nil {
		r.Fail("not limits")
		return nil
	}
	return e.Activity.Limits
}

// gateName returns the name of the gate of a limit. The name of a limit has no slash.
func gateName(l *history.Limit) string {
	if !l.Keyed {
		return l.Name
	}
	return l.Name + "/" + l.Key
}

// splitGate returns the name and the key of a gate's limit.
func splitGate(gate string) (name, key string, keyed bool) { return strings.Cut(gate, "/") }

func gateKey(tenant, gate string) store.Key {
	return store.Key{Queue: queueLimits, Tenant: tenant, Name: gate}
}

func gateRecord(tenant, gate string) store.RecordKey {
	return store.RecordKey{Kind: kindGate, Tenant: tenant, ID: gate}
}

func limitRecord(tenant, name string) store.RecordKey {
	return store.RecordKey{Kind: kindLimit, Tenant: tenant, ID: name}
}

func waitingRecord(tenant, work string) store.RecordKey {
	return store.RecordKey{Kind: kindWaiting, Tenant: tenant, ID: work}
}

// taskWork names the work of an activity, by the name of the key of its task.
func taskWork(task store.Key) string { return workOfTask + task.Name }

// instanceWork names the work of an instance.
func instanceWork(info *Info) string {
	return workOfInstance + strconv.FormatUint(info.workRun, 36) + "/" + info.ID
}

// How names of work begin.
const (
	workOfTask     = "a/"
	workOfInstance = "i/"
)

// Prefixes of the IDs of messages to gates. Work is at one place at a time.
const (
	gatePrefixEnter    = "e/"
	gatePrefixLeave    = "l/"
	gatePrefixWithdraw = "w/"
)

// rank returns the time by which what waits is admitted.
func (m *gateMessage) rank() time.Time {
	rank := m.since.Add(-time.Duration(m.priority) * priorityLevel)
	if rank.Before(time.UnixMilli(0)) {
		return time.UnixMilli(0).UTC()
	}
	return rank
}

// priorityLevel is by how much longer something is taken to have waited for each level of its priority.
const priorityLevel = time.Hour

// message returns the message to the gate at which the work is.
func (m *gateMessage) message(tenant string, at time.Time) store.Message {
	prefix := gatePrefixEnter
	switch m.kind {
	case gateLeave:
		prefix = gatePrefixLeave
	case gateWithdraw:
		prefix = gatePrefixWithdraw
	default:
	}
	id := prefix + m.work
	if m.kind == gateLeave {
		id += "/" + strconv.Itoa(int(m.entry))
	}
	return store.Message{
		Key: gateKey(tenant, gateName(&m.limits[m.at])), ID: id, Route: routeLimits, VisibleAt: at, Body: m.encode(),
	}
}

// inOrder returns limits in the order of their gates, each gate once.
func inOrder(limits []history.Limit) []history.Limit {
	if len(limits) < 2 {
		return limits
	}
	byGate := func(a, b history.Limit) int { return strings.Compare(gateName(&a), gateName(&b)) }
	sorted := slices.SortedFunc(slices.Values(limits), byGate)
	return slices.CompactFunc(sorted, func(a, b history.Limit) bool { return byGate(a, b) == 0 })
}

// enter returns the message by which work enters its first gate.
func enter(tenant, work string, entry int32, limits []history.Limit, priority int32, since, at time.Time, admits store.Message) store.Message {
	m := gateMessage{kind: gateEnter, work: work, entry: entry, limits: inOrder(limits), since: since, declared: since, priority: priority, admits: admits}
	return m.message(tenant, at)
}

// leave adds to a transaction that work which was admitted has ended.
func leave(tx *store.Tx, tenant, work string, entry int32, limits []history.Limit) {
	for i, limits := 0, inOrder(limits); i < len(limits); i++ {
		m := gateMessage{kind: gateLeave, work: work, entry: entry, limits: limits[i : i+1]}
		tx.Put = append(tx.Put, m.message(tenant, noTime))
	}
}

// withdraw adds to a transaction that work is not wanted any more, wherever it is. What it would put when it is
// admitted is deleted, if it has a name.
func withdraw(tx *store.Tx, tenant, work string, limits []history.Limit, admits store.MessageRef) {
	m := gateMessage{kind: gateWithdraw, work: work, limits: inOrder(limits), admits: store.Message{Key: admits.Key, ID: admits.ID}}
	msg := m.message(tenant, noTime)
	tx.Delete = append(tx.Delete, store.MessageRef{Key: msg.Key, ID: gatePrefixEnter + work}) // it may be due later
	tx.Put = append(tx.Put, msg)
}
