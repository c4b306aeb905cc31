package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/history"
)

// task is the body of the message that an activity waits in.
type task struct {
	instance    string
	execution   int32
	run         uint64 // of that execution
	scheduledAt time.Time
	attempts    int32            // that have ended with a failure
	last        *history.Failure // the last one
	event       history.Event    // by which it was asked for
}

// taskFormat is the first byte of a task.
const taskFormat = 1

func (t *task) encode() []byte {
	out := make([]byte, 0, 128+len(t.instance)+len(t.event.Data))
	out = append(out, taskFormat)
	out = appendBytes(out, []byte(t.instance))
	out = binary.AppendUvarint(out, uint64(t.execution))
	out = binary.LittleEndian.AppendUint64(out, t.run)
	out = appendTime(out, t.scheduledAt)
	out = binary.AppendUvarint(out, uint64(t.attempts))
	if t.last != nil {
		out = appendEvent(out, &history.Event{Kind: history.ActivityFailed, Failure: t.last})
	} else {
		out = appendBytes(out, nil)
	}
	return appendEvent(out, &t.event)
}

func decodeTask(data []byte) (task, error) {
	r := reader{data: data}
	r.format(taskFormat)
	t := task{instance: string(r.bytes()), execution: r.int32(), run: r.uint64(), scheduledAt: r.time(), attempts: r.int32()}
	if last := r.bytes(); len(last) > 0 {
		e, err := history.Parse(last)
		if err != nil {
			r.fail(err.Error())
		}
		t.last = e.Failure
	}
	t.event = r.event()
	if r.err == nil && (len(r.data) > 0 || t.event.Kind != history.ActivityScheduled || t.event.Activity == nil) {
		r.fail("not a task")
	}
	if r.err != nil {
		return task{}, fmt.Errorf("abide: task: %w", r.err)
	}
	return t, nil
}
