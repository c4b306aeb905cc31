package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Errors of entries that are not events that this version can replay.
var (
	ErrVersion = errors.New("unknown version of the wire format")
	ErrKind    = errors.New("unknown kind of event")
	ErrWire    = errors.New("malformed event")
)

// maxVersion is a version that no release will reach: what begins with a greater byte is
// not an event.
const maxVersion = 15

// maxDepth is how deep causes of failures may be nested.
const maxDepth = 100

// Parse reads the wire form of an event. What it returns holds parts of b.
func Parse(b []byte) (Event, error) {
	if len(b) == 0 {
		return Event{}, fmt.Errorf("history: parse: empty entry: %w", ErrWire)
	}
	if b[0] > maxVersion {
		return Event{}, fmt.Errorf("history: parse: version %d, this program reads version %d: %w: %w", b[0], wireVersion, ErrVersion, ErrWire)
	}
	if b[0] != wireVersion {
		return Event{}, fmt.Errorf("history: parse: version %d, this program reads version %d: %w", b[0], wireVersion, ErrVersion)
	}
	var e Event
	err := fields(b[1:], func(f *field) {
		switch f.number {
		case 1:
			e.ID = f.int32()
		case 2:
			e.Kind = Kind(f.int32())
		case 3:
			e.Ref = f.int32()
		case 4:
			e.Name = string(f.bytes())
		case 5:
			e.Target = string(f.bytes())
		case 6:
			if ms := f.int64(); ms != 0 { // absent and 0 are the same
				e.At = time.UnixMilli(ms).UTC()
			}
		case 7:
			e.Data = f.bytes()
		case 8:
			e.Failure = parseFailure(f, 0)
		case 9:
			e.Start = parseStart(f)
		case 10:
			e.Activity = parseActivity(f)
		case 11:
			e.Child = parseChild(f)
		case 12:
			e.Span = f.fixed()
		case 13:
			e.Build = string(f.bytes())
		case 14:
			e.Retired = f.int64() != 0
		case 15:
			e.HistoryEvents = f.int32()
		case 16:
			e.HistoryBytes = f.int64()
		case 17:
			e.Suggested = f.int64() != 0
		case 18:
			e.By = string(f.bytes())
		case 19:
			e.Discarded = f.int64() != 0
		case 20:
			e.Foreign = parseForeign(f)
		}
	})
	if err != nil {
		return Event{}, fmt.Errorf("history: parse: %w: %w", err, ErrWire)
	}
	if !e.Kind.Known() {
		return Event{}, fmt.Errorf("history: parse: event %d has kind %d: %w", e.ID, int32(e.Kind), ErrKind)
	}
	return e, nil
}

func parseFailure(f *field, depth int) *Failure {
	if depth == maxDepth {
		f.err = errors.New("causes are nested too deep")
		return nil
	}
	var x Failure
	f.message(func(f *field) {
		switch f.number {
		case 1:
			x.Type = string(f.bytes())
		case 2:
			x.Message = string(f.bytes())
		case 3:
			x.Final = f.int64() != 0
		case 4:
			x.Attempt = f.int32()
		case 5:
			x.Details = f.bytes()
		case 6:
			x.Cause = parseFailure(f, depth+1)
		}
	})
	return &x
}

func parseStart(f *field) *Start {
	var x Start
	f.message(func(f *field) {
		switch f.number {
		case 1:
			x.Version = string(f.bytes())
		case 2:
			x.Execution = f.int32()
		case 3:
			x.Parent = string(f.bytes())
		case 4:
			x.ParentExecution = f.int32()
		case 5:
			x.ParentEvent = f.int32()
		case 6:
			x.Seed = f.fixed()
		case 7:
			x.ParentName = string(f.bytes())
		}
	})
	return &x
}

func parseForeign(f *field) *Foreign {
	var x Foreign
	f.message(func(f *field) {
		switch f.number {
		case 1:
			x.ID = f.int32()
		case 2:
			x.Request = string(f.bytes())
		case 3:
			x.Version = string(f.bytes())
		case 4:
			x.Tags = addTag(x.Tags, f)
		case 5:
			x.TraceParent = string(f.bytes())
		case 6:
			x.TraceState = string(f.bytes())
		}
	})
	return &x
}

// addTag adds the tag of a field to tags.
func addTag(tags map[string]string, f *field) map[string]string {
	var name, value string
	f.message(func(f *field) {
		switch f.number {
		case 1:
			name = string(f.bytes())
		case 2:
			value = string(f.bytes())
		}
	})
	if tags == nil {
		tags = map[string]string{}
	}
	tags[name] = value
	return tags
}

func parseActivity(f *field) *Activity {
	var x Activity
	f.message(func(f *field) {
		switch f.number {
		case 1:
			x.StartToClose = f.millis()
		case 2:
			x.ScheduleToClose = f.millis()
		case 3:
			x.Heartbeat = f.millis()
		case 4:
			x.MaxAttempts = f.int32()
		case 5:
			x.Backoff = f.millis()
		case 6:
			x.BackoffMax = f.millis()
		case 7:
			x.Factor = math.Float64frombits(f.fixed())
		case 8:
			x.Final = append(x.Final, string(f.bytes()))
		case 9:
			x.Limits = append(x.Limits, parseLimit(f))
		case 10:
			x.Priority = f.int32()
		}
	})
	return &x
}

func parseChild(f *field) *Child {
	var x Child
	f.message(func(f *field) {
		switch f.number {
		case 1:
			x.Version = string(f.bytes())
		case 2:
			x.OnClose = ClosePolicy(f.int32())
		case 3:
			x.Tags = addTag(x.Tags, f)
		case 4:
			x.Replace = f.int64() != 0
		case 5:
			x.Limits = append(x.Limits, parseLimit(f))
		case 6:
			x.Priority = f.int32()
		}
	})
	return &x
}

// field is one field of a message. Its methods return the value if it has the right
// type, and note an error if it has not.
type field struct {
	number   protowire.Number
	kind     protowire.Type
	number64 uint64 // of a varint or fixed64
	raw      []byte // of bytes
	err      error
}

// fields calls read with each field of a message. Those that it does not look at are
// skipped.
func fields(b []byte, read func(*field)) error {
	var f field // one for all of them: it is on the heap, because read may keep it
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f = field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.number64, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.number64, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.raw, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if read(&f); f.err != nil {
			return fmt.Errorf("field %d: %w", number, f.err)
		}
	}
	return nil
}

func (f *field) is(kind protowire.Type) bool {
	if f.kind != kind && f.err == nil {
		f.err = fmt.Errorf("has wire type %d, want %d", f.kind, kind)
	}
	return f.kind == kind
}

func (f *field) int64() int64 {
	if !f.is(protowire.VarintType) {
		return 0
	}
	return int64(f.number64)
}

func (f *field) int32() int32 {
	v := f.int64()
	if v < math.MinInt32 || v > math.MaxInt32 {
		f.err = fmt.Errorf("%d does not fit into 32 bits", v)
		return 0
	}
	return int32(v)
}

func (f *field) millis() time.Duration {
	v := f.int64()
	if v < 0 || v > math.MaxInt64/int64(time.Millisecond) {
		f.err = fmt.Errorf("%d ms is no duration", v)
		return 0
	}
	return time.Duration(v) * time.Millisecond
}

func (f *field) fixed() uint64 {
	if !f.is(protowire.Fixed64Type) {
		return 0
	}
	return f.number64
}

func (f *field) bytes() []byte {
	if !f.is(protowire.BytesType) {
		return nil
	}
	return slices.Clip(f.raw)
}

// message reads the field as a message.
func (f *field) message(read func(*field)) {
	if b := f.bytes(); f.err == nil {
		f.err = fields(b, read)
	}
}
