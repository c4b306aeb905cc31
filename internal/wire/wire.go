// Package wire is how small things are put into bytes that a store keeps: numbers
// as varints, strings with their length before them, times in milliseconds.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// End fails unless all was read, and returns the first error.
func (r *Reader) End() error {
	if r.Err == nil && len(r.Data) > 0 {
		r.Fail(fmt.Sprintf("%d bytes too many", len(r.Data)))
	}
	return r.Err
}
