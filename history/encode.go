package history

import (
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// wireVersion is the first byte of an event.
const wireVersion = 1

// Append adds the wire form of an event to b. Times lose what is below a
// millisecond.
func Append(b []byte, e *Event) []byte {
	b = append(b, wireVersion)
	b = appendInt(b, 1, int64(e.ID))
	b = appendInt(b, 2, int64(e.Kind))
	b = appendInt(b, 3, int64(e.Ref))
	b = appendString(b, 4, e.Name)
	b = appendString(b, 5, e.Target)
	if !e.At.IsZero() {
		b = appendInt(b, 6, e.At.UnixMilli())
	}
	b = appendBytes(b, 7, e.Data)
	if e.Failure != nil {
		b = appendMessage(b, 8, e.Failure, appendFailure)
	}
	if e.Start != nil {
		b = appendMessage(b, 9, e.Start, appendStart)
	}
	if e.Activity != nil {
		b = appendMessage(b, 10, e.Activity, appendActivity)
	}
	if e.Child != nil {
		b = appendMessage(b, 11, e.Child, appendChild)
	}
	b = appendFixed(b, 12, e.Span)
	b = appendString(b, 13, e.Build)
	b = appendInt(b, 14, int64(protowire.EncodeBool(e.Retired)))
	b = appendInt(b, 15, int64(e.HistoryEvents))
	b = appendInt(b, 16, e.HistoryBytes)
	b = appendInt(b, 17, int64(protowire.EncodeBool(e.Suggested)))
	b = appendString(b, 18, e.By)
	b = appendInt(b, 19, int64(protowire.EncodeBool(e.Discarded)))
	if e.Foreign != nil {
		b = appendMessage(b, 20, e.Foreign, appendForeign)
	}
	return b
}

func appendForeign(b []byte, f *Foreign) []byte {
	b = appendInt(b, 1, int64(f.ID))
	b = appendString(b, 2, f.Request)
	b = appendString(b, 3, f.Version)
	b = appendTags(b, 4, f.Tags)
	b = appendString(b, 5, f.TraceParent)
	return appendString(b, 6, f.TraceState)
}

// appendTags writes tags in the order of their names, each as a message with its name and value.
func appendTags(b []byte, field protowire.Number, tags map[string]string) []byte {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		b = appendMessage(b, field, name, func(b []byte, name string) []byte {
			return appendString(appendString(b, 1, name), 2, tags[name])
		})
	}
	return b
}

func appendFailure(b []byte, f *Failure) []byte {
	b = appendString(b, 1, f.Type)
	b = appendString(b, 2, f.Message)
	b = appendInt(b, 3, int64(protowire.EncodeBool(f.Final)))
	b = appendInt(b, 4, int64(f.Attempt))
	b = appendBytes(b, 5, f.Details)
	if f.Cause != nil {
		b = appendMessage(b, 6, f.Cause, appendFailure)
	}
	return b
}

func appendStart(b []byte, s *Start) []byte {
	b = appendString(b, 1, s.Version)
	b = appendInt(b, 2, int64(s.Execution))
	b = appendString(b, 3, s.Parent)
	b = appendInt(b, 4, int64(s.ParentExecution))
	b = appendInt(b, 5, int64(s.ParentEvent))
	b = appendFixed(b, 6, s.Seed)
	return appendString(b, 7, s.ParentName)
}

func appendActivity(b []byte, a *Activity) []byte {
	b = appendMillis(b, 1, a.StartToClose)
	b = appendMillis(b, 2, a.ScheduleToClose)
	b = appendMillis(b, 3, a.Heartbeat)
	b = appendInt(b, 4, int64(a.MaxAttempts))
	b = appendMillis(b, 5, a.Backoff)
	b = appendMillis(b, 6, a.BackoffMax)
	b = appendFixed(b, 7, math.Float64bits(a.Factor))
	for _, name := range a.Final {
		b = protowire.AppendTag(b, 8, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	b = appendLimits(b, 9, a.Limits)
	return appendInt(b, 10, int64(a.Priority))
}

func appendChild(b []byte, c *Child) []byte {
	b = appendString(b, 1, c.Version)
	b = appendInt(b, 2, int64(c.OnClose))
	b = appendTags(b, 3, c.Tags)
	b = appendInt(b, 4, int64(protowire.EncodeBool(c.Replace)))
	b = appendLimits(b, 5, c.Limits)
	return appendInt(b, 6, int64(c.Priority))
}

// appendMessage adds a message whose length is known only when it is written.
func appendMessage[T any](b []byte, field protowire.Number, m T, write func([]byte, T) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b)
	b = write(b, m)
	size := len(b) - start
	n := protowire.SizeVarint(uint64(size))
	for range n {
		b = append(b, 0)
	}
	copy(b[start+n:], b[start:start+size])
	protowire.AppendVarint(b[:start], uint64(size))
	return b
}

func appendInt(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// appendMillis takes less than nothing for none: Parse would refuse it.
func appendMillis(b []byte, field protowire.Number, d time.Duration) []byte {
	return appendInt(b, field, max(d.Milliseconds(), 0))
}

func appendFixed(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), v)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
