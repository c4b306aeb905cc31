package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
)

// task is the body of an activity's message. It has all that an attempt needs, so that a worker reads
// neither the record nor the history of the instance: an activity can run in a process that does not
// serve its orchestration. A retry puts the same task with a higher attempts and the last failure.
type task struct {
	// instance, execution and run identify the execution that waits for the outcome. The outcome
	// carries run, so that a later execution drops it.
	instance  string
	execution int32
	run       uint64

	// scheduledAt is the time of the turn that scheduled the activity; schedule-to-close counts
	// from it.
	scheduledAt time.Time

	// attempts is the number of attempts that have ended with a failure, and last the failure of
	// the last one. Attempts whose process was lost are counted by the store, in the claim.
	attempts int32
	last     *history.Failure

	// crashes is how many attempts were lost before the task was put the last time: one under limits enters them
	// again after each. inherited is the priority of the instance.
	crashes   int32
	inherited int32

	// entry counts how often it has entered its limits before.
	entry int32

	event history.Event // ActivityScheduled, with the input and the options
	route string        // of the instance, for logs and spans
	under span          // of the turn that scheduled it
}

// taskFormat is the first byte of a task.
const taskFormat = 1

func (t *task) encode() []byte {
	out := make([]byte, 0, 128+len(t.instance)+len(t.event.Data))
	out = append(out, taskFormat)
	out = wire.AppendString(out, t.instance)
	out = binary.AppendUvarint(out, uint64(t.execution))
	out = binary.LittleEndian.AppendUint64(out, t.run)
	out = wire.AppendTime(out, t.scheduledAt)
	out = binary.AppendUvarint(out, uint64(t.attempts))
	if t.last != nil {
		out = appendEvent(out, &history.Event{Kind: history.ActivityFailed, Failure: t.last})
	} else {
		out = wire.AppendString(out, "")
	}
	out = appendEvent(out, &t.event)
	out = wire.AppendString(out, t.route)
	out = appendSpan(out, &t.under)
	if t.crashes == 0 && t.inherited == 0 && t.entry == 0 {
		return out // as earlier releases read it
	}
	out = binary.AppendUvarint(out, uint64(t.crashes))
	out = binary.AppendUvarint(out, uint64(t.inherited-minPriority))
	return binary.AppendUvarint(out, uint64(t.entry))
}

// priority returns the priority of the activity: its own, or that of its instance.
func (t *task) priority() int32 {
	if own := t.event.Activity.Priority; own != 0 {
		return own
	}
	return t.inherited
}

func decodeTask(data []byte) (task, error) {
	r := read(data)
	r.Format(taskFormat)
	t := task{instance: r.String(), execution: r.Int32(), run: r.Uint64(), scheduledAt: r.Time(), attempts: r.Int32()}
	if last := r.Bytes(); len(last) > 0 {
		e, err := history.Parse(last)
		if err != nil {
			r.Fail(err.Error())
		}
		t.last = e.Failure
	}
	t.event = r.event()
	if r.Err == nil && len(r.Data) > 0 { // it was written before there were these
		t.route, t.under = r.String(), r.span()
	}
	if r.Err == nil && len(r.Data) > 0 {
		t.crashes, t.inherited = r.Int32(), int32(r.Number())+minPriority
		t.entry = r.Int32()
	}
	if r.Err == nil && (len(r.Data) > 0 || t.event.Kind != history.ActivityScheduled || t.event.Activity == nil) {
		r.Fail("not a task")
	}
	if r.Err != nil {
		return task{}, fmt.Errorf("abide: task: %w", r.Err)
	}
	return t, nil
}
