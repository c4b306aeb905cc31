// Package wire is how small things are put into bytes that a store keeps: numbers
// as varints, strings with their length before them, times in milliseconds.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// ErrFormat means that bytes are not what they should be.
var ErrFormat = errors.New("malformed bytes")

// AppendNumber appends a number.
func AppendNumber(out []byte, n uint64) []byte { return binary.AppendUvarint(out, n) }

// AppendString appends a length and a string.
func AppendString[S ~string | ~[]byte](out []byte, s S) []byte {
	out = binary.AppendUvarint(out, uint64(len(s)))
	return append(out, s...)
}

// AppendTime appends a time, in milliseconds; the zero time is 0.
func AppendTime(out []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(out, 0)
	}
	return binary.AppendUvarint(out, uint64(t.UnixMilli()))
}

// AppendTimes appends times one after the other.
func AppendTimes(out []byte, times ...time.Time) []byte {
	for _, t := range times {
		out = AppendTime(out, t)
	}
	return out
}

// AppendStrings appends how many strings there are, and each of them.
func AppendStrings[S ~string](out []byte, list []S) []byte {
	out = AppendNumber(out, uint64(len(list)))
	for _, s := range list {
		out = AppendString(out, s)
	}
	return out
}

// AppendMap appends how many entries there are, and each name and value in the order of names.
func AppendMap(out []byte, m map[string]string) []byte {
	out = AppendNumber(out, uint64(len(m)))
	if len(m) == 0 {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = AppendString(out, name)
		out = AppendString(out, m[name])
	}
	return out
}

// AppendFlag appends 1 if it is set, and 0 if not.
func AppendFlag(out []byte, set bool) []byte {
	if set {
		return append(out, 1)
	}
	return append(out, 0)
}

// Reader takes bytes apart. After an error it returns zeros, so that only the end
// need be checked.
type Reader struct {
	Data []byte // what is left
	Err  error  // the first one
}

// Fail notes an error that matches [ErrFormat], unless there is one.
func (r *Reader) Fail(what string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%s: %w", what, ErrFormat)
	}
	r.Data = nil
}

// Format reads the first byte, which says what the others mean.
func (r *Reader) Format(want byte) {
	if len(r.Data) == 0 {
		r.Fail("empty")
		return
	}
	if r.Data[0] != want {
		r.Fail(fmt.Sprintf("format %d, this version knows %d", r.Data[0], want))
		return
	}
	r.Data = r.Data[1:]
}

// Number reads a number.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.Data)
	if n <= 0 {
		r.Fail("bad number")
		return 0
	}
	r.Data = r.Data[n:]
	return v
}

// Int32 reads a number that is not negative and fits.
func (r *Reader) Int32() int32 {
	v := r.Number()
	if v > 1<<31-1 {
		r.Fail("number out of range")
		return 0
	}
	return int32(v)
}

// Uint64 reads eight bytes, little-endian.
func (r *Reader) Uint64() uint64 {
	if len(r.Data) < 8 {
		r.Fail("too short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.Data)
	r.Data = r.Data[8:]
	return v
}

// Bytes reads what [AppendString] wrote. It is a part of what the reader was given.
func (r *Reader) Bytes() []byte {
	n := r.Number()
	if n > uint64(len(r.Data)) {
		r.Fail("too short")
		return nil
	}
	data := r.Data[:n:n]
	r.Data = r.Data[n:]
	return data
}

// String reads what [AppendString] wrote.
func (r *Reader) String() string { return string(r.Bytes()) }

// Time reads what [AppendTime] wrote.
func (r *Reader) Time() time.Time {
	ms := r.Number()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Flag reads what [AppendFlag] wrote.
func (r *Reader) Flag() bool {
	n := r.Number()
	if n > 1 {
		r.Fail("not a flag")
	}
	return n == 1
}

// Items reads a count, and yields once for each item, which the caller reads. It ends early at the
// first error, so that a bad count does not make the caller allocate without end.
func (r *Reader) Items() iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		for n := r.Number(); n > 0 && r.Err == nil; n-- {
			if !yield(struct{}{}) {
				return
			}
		}
	}
}

// Strings reads what [AppendStrings] wrote. It returns nil if there are none.
func Strings[S ~string](r *Reader) (list []S) {
	for range r.Items() {
		list = append(list, S(r.String()))
	}
	return list
}

// Map reads what [AppendMap] wrote. It returns nil if there are no entries.
func (r *Reader) Map() (m map[string]string) {
	for range r.Items() {
		if m == nil {
			m = map[string]string{}
		}
		name := r.String()
		m[name] = r.String()
	}
	return m
}

// End fails unless all was read, and returns the first error.
func (r *Reader) End() error {
	if r.Err == nil && len(r.Data) > 0 {
		r.Fail(fmt.Sprintf("%d bytes too many", len(r.Data)))
	}
	return r.Err
}
