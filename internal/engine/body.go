package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/history"
)

// bodyFormat is the first byte of every message body.
const bodyFormat = 1

// bodyKind says what a message to an instance is about. The numbers are on disk.
type bodyKind uint64

const (
	bodyStart     bodyKind = 1 // an execution starts: ExecutionStarted, then events that it inherits
	bodyEvents    bodyKind = 2 // events that reach the execution
	bodyWake      bodyKind = 3 // the code has something to do: it yielded, or was resumed
	bodySuspend   bodyKind = 4
	bodyResume    bodyKind = 5
	bodyTerminate bodyKind = 6
	bodyExpire    bodyKind = 7 // an ended instance has been kept for as long as it should be
	bodyOrphan    bodyKind = 8 // nothing but that the parent has ended
	bodyParked    bodyKind = 9 // keeps the route of a suspended or stalled instance
)

// body is what a message to an instance says.
type body struct {
	kind    bodyKind
	run     uint64 // of the execution that it is for; 0 means whichever there is
	awaited bool   // an event is to be dropped unless somebody waits for it
	orphan  bool   // the parent has ended, and nobody waits for the result
	reason  string // for people
	info    *Info  // of the instance that starts, so that its record need not be read
	parent  *parentMark
	events  []history.Event
}

const (
	flagAwaited = 1
	flagInfo    = 2
	flagParent  = 4
	flagOrphan  = 8
)

// parentMark says which parent a message is from, and by which event of its history it
// started the child: whoever has another parent is not meant.
type parentMark struct {
	run   uint64
	event int32
}

func (b *body) encode() []byte {
	flags := uint64(0)
	if b.awaited {
		flags |= flagAwaited
	}
	if b.orphan {
		flags |= flagOrphan
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
	out = appendBytes(out, []byte(b.reason))
	if b.info != nil {
		out = appendBytes(out, b.info.encodeStart())
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

func decodeBody(data []byte) (body, error) {
	r := reader{data: data}
	r.format(bodyFormat)
	b := body{kind: bodyKind(r.uvarint()), run: r.uint64()}
	flags := r.uvarint()
	b.awaited, b.orphan = flags&flagAwaited != 0, flags&flagOrphan != 0
	b.reason = string(r.bytes())
	if flags&flagInfo != 0 {
		b.info = r.startInfo()
	}
	if flags&flagParent != 0 {
		b.parent = &parentMark{run: r.uint64(), event: r.int32()}
	}
	for r.err == nil && len(r.data) > 0 {
		b.events = append(b.events, r.event())
	}
	if r.err != nil {
		return body{}, fmt.Errorf("abide: message: %w", r.err)
	}
	if b.kind < bodyStart || b.kind > bodyParked {
		return body{}, fmt.Errorf("abide: message of kind %d: %w", b.kind, errBody)
	}
	if flags&^(flagAwaited|flagInfo|flagParent|flagOrphan) != 0 {
		return body{}, fmt.Errorf("abide: message with flags %#x: %w", flags, errBody)
	}
	return b, nil
}

// appendBytes appends a length and bytes.
func appendBytes(out, data []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(data)))
	return append(out, data...)
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
	data []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, errBody)
	}
	r.data = nil
}

func (r *reader) format(want byte) {
	if len(r.data) == 0 {
		r.fail("empty")
		return
	}
	if r.data[0] != want {
		r.fail(fmt.Sprintf("format %d, this version knows %d", r.data[0], want))
		return
	}
	r.data = r.data[1:]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.uvarint()
	if v > 1<<31-1 {
		r.fail("number out of range")
		return 0
	}
	return int32(v)
}

func (r *reader) uint64() uint64 {
	if len(r.data) < 8 {
		r.fail("too short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data)
	r.data = r.data[8:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.fail("too short")
		return nil
	}
	data := r.data[:n:n]
	r.data = r.data[n:]
	return data
}

func (r *reader) event() history.Event {
	data := r.bytes()
	if r.err != nil {
		return history.Event{}
	}
	e, err := history.Parse(data)
	if err != nil {
		r.fail(err.Error())
	}
	return e
}
