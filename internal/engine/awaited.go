package engine

import (
	"slices"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/wire"
)

// Awaited is an event that the code of an instance waits for.
type Awaited = replay.Awaited

// maxAwaited is how many awaited events the record of an instance lists.
const maxAwaited = 100

// noteAwaited keeps in the record which events the code waits for, if that has changed with this
// turn: it is in no event of the history, and a caller that raises one should not have to run code
// to know. Most instances wait for none, and cost nothing. One that waits for the same event again and
// again, in a loop, does not change its record each time: since when it waits is then that of the first
// time, and Waits finds the later one in the history.
func (t *turn) noteAwaited() {
	info := &t.in.info
	var awaited []Awaited
	if exec := t.in.exec; exec != nil && t.next == nil && !info.Status.Ended() {
		awaited = exec.Awaited()
		awaited = awaited[:min(len(awaited), maxAwaited)]
	} else if exec == nil && !info.Status.Ended() {
		return // the code has not run
	}
	if !slices.EqualFunc(awaited, info.Awaited, sameAwaited) {
		info.Awaited, t.changed = awaited, true
	}
}

// sameAwaited compares two awaited events, but for since when they are.
func sameAwaited(a, b Awaited) bool {
	return a.Name == b.Name && a.Schema == b.Schema
}

func encodeAwaited(awaited []Awaited) []byte {
	out := wire.AppendNumber(nil, uint64(len(awaited)))
	for _, a := range awaited {
		out = wire.AppendString(out, a.Name)
		out = wire.AppendString(out, a.Schema)
		out = wire.AppendTime(out, a.Since)
	}
	return out
}

func decodeAwaited(data []byte) ([]Awaited, error) {
	d := wire.Reader{Data: data}
	var awaited []Awaited
	for n := d.Number(); n > 0 && d.Err == nil; n-- {
		awaited = append(awaited, Awaited{Name: d.String(), Schema: d.String(), Since: d.Time()})
	}
	return awaited, d.Err
}

// BadPayload is a payload that does not fit its type, because of which an instance has stalled.
type BadPayload struct {
	// Event is the ID of the event that has it if that is in history, and Message the ID of the
	// message that brings it if it is not.
	Event   int32
	Message string

	// Kind and Name are those of the event, see [replay.PayloadError].
	Kind history.Kind
	Name string
}

func (b *BadPayload) encode() []byte {
	out := wire.AppendNumber(nil, uint64(b.Event))
	out = wire.AppendString(out, b.Message)
	out = wire.AppendNumber(out, uint64(b.Kind))
	return wire.AppendString(out, b.Name)
}

func decodeBadPayload(data []byte) (*BadPayload, error) {
	d := wire.Reader{Data: data}
	b := &BadPayload{Event: d.Int32(), Message: d.String(), Kind: history.Kind(d.Int32()), Name: d.String()}
	return b, d.Err
}
