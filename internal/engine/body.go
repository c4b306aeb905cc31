package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// bodyFormat is the first byte of every message body.
const bodyFormat = 1

// maxFormat is a format that no release will reach: what begins with a greater byte is not
// the body of a message.
const maxFormat = 15

// bodyKind says what a message to an instance is about. The numbers are on disk.
type bodyKind uint64

const (
	bodyStart     bodyKind = 1 // an execution starts: ExecutionStarted, then events that it inherits
	bodyEvents    bodyKind = 2 // events that reach the execution
	bodyWake      bodyKind = 3 // the code has something to do: it yielded, or was resumed
	bodySuspend   bodyKind = 4
	bodyResume    bodyKind = 5
	bodyTerminate bodyKind = 6
	bodyExpire    bodyKind = 7  // an ended instance has been kept for as long as it should be
	bodyOrphan    bodyKind = 8  // nothing but that the parent has ended
	bodyParked    bodyKind = 9  // keeps the route of a suspended or stalled instance
	bodyCorrect   bodyKind = 10 // the payload of an event is corrected: PayloadCorrected
	bodyAdmit     bodyKind = 11 // the limits of an instance have admitted it
)

// body is the body of a message to an instance, in the queue "turns" or "control". The store does not
// look into it. Its format has a version byte; fields that were added later are guarded by flags, so that
// a release reads what earlier ones wrote, and recognises what a later one wrote (errLater).
type body struct {
	kind bodyKind

	// run is the run of the execution that the message is for; 0 means the current one, whichever
	// it is: raised events and control requests.
	run uint64

	// awaited is true for an event that is dropped unless the code waits for it.
	awaited bool

	// orphan is true if the parent has ended, so that no result is sent to it.
	orphan bool

	// recursive is true for a termination that ends the open children too, whatever their close
	// policies are.
	recursive bool

	reason string // of a control request, for people

	// info is the record of an instance that starts, so that its first turn need not read it.
	info *Info

	// parent is set on messages of a parent to its child.
	parent *parentMark

	events []history.Event
}

// Flags of a body, on disk: booleans, and which optional fields follow.
const (
	flagAwaited = 1
	flagInfo    = 2
	flagParent  = 4
	flagOrphan  = 8

	flagRecursive = 16
)

// parentMark says which parent a message is from, and by which event of its history it
// started the child: an instance with another parent drops the message.
type parentMark struct {
	run   uint64
	event int32
}

// EventMessage returns a message that raises an event for whichever execution an instance of the
// default tenant has, now or when it is started. It is for databases that are converted to a
// store; clients raise events with Raise.
func EventMessage(instance, id, name string, payload []byte) store.Message {
	b := body{kind: bodyEvents, events: []history.Event{{Kind: history.EventReceived, Name: name, Data: payload}}}
	return store.Message{Key: store.Key{Queue: queueTurns, Name: instance}, ID: id, Body: b.encode()}
}

func (b *body) encode() []byte {
	flags := uint64(0)
	if b.awaited {
		flags |= flagAwaited
	}
	if b.orphan {
		flags |= flagOrphan
	}
	if b.recursive {
		flags |= flagRecursive
	}
	if b.info != nil {
		flags |= flagInfo
	}
	if b.parent != nil {
		flags |= flagParent
	}
	size := 128 + len(b.reason)
	for i := range b.events {
		size += 64 + len(b.events[i].Data)
	}
	out := make([]byte, 0, size)
	out = append(out, bodyFormat)
	out = binary.AppendUvarint(out, uint64(b.kind))
	out = binary.LittleEndian.AppendUint64(out, b.run)
	out = binary.AppendUvarint(out, flags)
	out = wire.AppendString(out, b.reason)
	if b.info != nil {
		out = wire.AppendString(out, b.info.encodeStart())
	}
	if b.parent != nil {
		out = binary.LittleEndian.AppendUint64(out, b.parent.run)
		out = binary.AppendUvarint(out, uint64(b.parent.event))
	}
	for i := range b.events {
		out = appendEvent(out, &b.events[i])
	}
	return out
}

var errBody = errors.New("not the body of a message")

// errLater is the error of what a later release has written: a message or an event of a
// kind, or with a flag, that this one does not know.
var errLater = errors.New("written by a later release")

func decodeBody(data []byte) (body, error) {
	if len(data) > 0 && data[0] > bodyFormat && data[0] <= maxFormat {
		return body{}, fmt.Errorf("abide: message of format %d, this release knows %d: %w", data[0], bodyFormat, errLater)
	}
	r := read(data)
	r.Format(bodyFormat)
	b := body{kind: bodyKind(r.Number()), run: r.Uint64()}
	flags := r.Number()
	b.awaited, b.orphan, b.recursive = flags&flagAwaited != 0, flags&flagOrphan != 0, flags&flagRecursive != 0
	b.reason = r.String()
	if flags&flagInfo != 0 {
		b.info = r.startInfo()
	}
	if flags&flagParent != 0 {
		b.parent = &parentMark{run: r.Uint64(), event: r.Int32()}
	}
	for r.Err == nil && len(r.Data) > 0 {
		b.events = append(b.events, r.event())
	}
	known := uint64(flagAwaited | flagInfo | flagParent | flagOrphan | flagRecursive)
	switch {
	case len(data) > 1 && b.kind > bodyAdmit:
		return body{}, fmt.Errorf("abide: message of kind %d: %w", b.kind, errLater)
	case flags&^known != 0:
		return body{}, fmt.Errorf("abide: message with flags %#x: %w", flags, errLater)
	case r.later != nil:
		return body{}, fmt.Errorf("abide: message: %w: %w", r.later, errLater)
	case r.Err != nil:
		return body{}, fmt.Errorf("abide: message: %w", r.Err)
	case b.kind < bodyStart:
		return body{}, fmt.Errorf("abide: message of kind %d: %w", b.kind, errBody)
	}
	return b, nil
}

// appendEvent appends a length and an event.
func appendEvent(out []byte, e *history.Event) []byte {
	start := len(out)
	out = history.Append(out, e)
	n := len(out) - start
	// The length is known by now, and belongs before it.
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	out = append(out, length[:k]...)
	copy(out[start+k:], out[start:start+n])
	copy(out[start:], length[:k])
	return out
}

// encodeEvent returns an event as an entry of the log.
func encodeEvent(e *history.Event) []byte {
	return history.Append(make([]byte, 0, 64+len(e.Name)+len(e.Target)+len(e.Data)), e)
}

// reader takes a body apart. After an error it returns zeros.
type reader struct {
	wire.Reader
	later error // of an event that a later release has written
}

func read(data []byte) reader { return reader{Reader: wire.Reader{Data: data}} }

func (r *reader) event() history.Event {
	data := r.Bytes()
	if r.Err != nil {
		return history.Event{}
	}
	e, err := history.Parse(data)
	if err != nil {
		r.Fail(err.Error())
	}
	if UnknownEvent(err) {
		r.later = err
	}
	return e
}

// UnknownEvent reports whether an event cannot be read because a later release has written it.
func UnknownEvent(err error) bool {
	return (errors.Is(err, history.ErrKind) || errors.Is(err, history.ErrVersion)) && !errors.Is(err, history.ErrWire)
}
