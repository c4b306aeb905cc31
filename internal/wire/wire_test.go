package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC)

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	out := []byte{7}
	for _, n := range []uint64{0, 127, 128, math.MaxInt32, math.MaxUint64} {
		out = AppendNumber(out, n)
	}
	out = AppendString(out, "")
	out = AppendString(out, "é\x00")
	out = AppendString(out, bytes.Repeat([]byte{1}, 200))
	for _, at := range []time.Time{{}, noon, time.UnixMilli(1), time.UnixMilli(-5)} {
		out = AppendTime(out, at)
	}
	out = binary.LittleEndian.AppendUint64(out, 0x1122334455667788)

	r := Reader{Data: out}
	r.Format(7)
	for _, want := range []uint64{0, 127, 128} {
		if got := r.Number(); got != want {
			t.Errorf("the number is %d, want %d", got, want)
		}
	}
	if got := r.Int32(); got != math.MaxInt32 {
		t.Errorf("the number is %d", got)
	}
	if got := r.Number(); got != math.MaxUint64 {
		t.Errorf("the number is %d", got)
	}
	for _, want := range []string{"", "é\x00", strings.Repeat("\x01", 200)} {
		if got := r.String(); got != want {
			t.Errorf("the string is %q, want %q", got, want)
		}
	}
	for _, want := range []time.Time{{}, noon, time.UnixMilli(1), time.UnixMilli(-5)} {
		if got := r.Time(); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("the time is %v, want %v", got, want)
		}
	}
	if got := r.Uint64(); got != 0x1122334455667788 {
		t.Errorf("the number is %x", got)
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

// Lists and maps have their length before them; maps are in the order of names. A count that is
// too high ends at the end of the bytes.
func TestListsAndMaps(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"b": "2", "a": "", "c": "3"}
	out := AppendStrings(nil, []string{"x", ""})
	out = AppendStrings[string](out, nil)
	out = AppendTimes(out, noon, time.Time{})
	out = AppendMap(out, tags)
	out = AppendMap(out, nil)
	if want := "\x02\x01x\x00\x00"; !strings.HasPrefix(string(out), want) || !strings.HasSuffix(string(out), "\x03\x01a\x00\x01b\x012\x01c\x013\x00") {
		t.Errorf("the bytes are %q", out)
	}
	r := Reader{Data: out}
	if got, none := Strings[string](&r), Strings[string](&r); !slices.Equal(got, []string{"x", ""}) || none != nil {
		t.Errorf("the strings are %q and %q", got, none)
	}
	if got := r.Time(); !got.Equal(noon) || !r.Time().IsZero() {
		t.Errorf("the time is %v", got)
	}
	if got, none := r.Map(), r.Map(); !maps.Equal(got, tags) || none != nil {
		t.Errorf("the maps are %q and %q", got, none)
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
	r = Reader{Data: AppendString(AppendNumber(nil, math.MaxUint64), "x")}
	if got := Strings[string](&r); len(got) > 2 || !errors.Is(r.End(), ErrFormat) {
		t.Errorf("%d strings, %v", len(got), r.Err)
	}
}

// TestMalformedBytesAreSaid: what is wrong, in an error that matches.
func TestMalformedBytesAreSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data []byte
		read func(*Reader)
		says string
	}{
		"no format":         {nil, func(r *Reader) { r.Format(1) }, "empty"},
		"another format":    {[]byte{2}, func(r *Reader) { r.Format(1) }, "format 2, this version knows 1"},
		"no number":         {nil, func(r *Reader) { r.Number() }, "bad number"},
		"half a number":     {[]byte{0x80}, func(r *Reader) { r.Number() }, "bad number"},
		"endless number":    {bytes.Repeat([]byte{0xff}, 11), func(r *Reader) { r.Number() }, "bad number"},
		"number too large":  {AppendNumber(nil, 1<<31), func(r *Reader) { r.Int32() }, "out of range"},
		"half of eight":     {make([]byte, 7), func(r *Reader) { r.Uint64() }, "too short"},
		"half a string":     {[]byte{3, 'a', 'b'}, func(r *Reader) { _ = r.String() }, "too short"},
		"string of a world": {AppendNumber(nil, math.MaxUint64), func(r *Reader) { r.Bytes() }, "too short"},
		"more than all":     {[]byte{1, 2, 3}, func(r *Reader) { r.Number() }, "2 bytes too many"},
	} {
		r := Reader{Data: tt.data}
		tt.read(&r)
		if err := r.End(); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}

// TestAfterAnErrorThereAreZeros, and the first error stays.
func TestAfterAnErrorThereAreZeros(t *testing.T) {
	t.Parallel()
	r := Reader{Data: append([]byte{9}, bytes.Repeat([]byte{1}, 50)...)}
	r.Format(1)
	if r.Number() != 0 || r.Int32() != 0 || r.Uint64() != 0 || r.String() != "" || r.Bytes() != nil || !r.Time().IsZero() || r.Data != nil {
		t.Error("something is read after an error")
	}
	r.Fail("later")
	if err := r.End(); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("the error is %v, want the first one", err)
	}
}

// TestBytesCannotGrowIntoWhatFollows: who appends to them changes nothing else.
func TestBytesCannotGrowIntoWhatFollows(t *testing.T) {
	t.Parallel()
	r := Reader{Data: []byte{1, 'a', 1, 'b'}}
	_ = append(r.Bytes(), 'x', 'x')
	if got := r.String(); got != "b" {
		t.Errorf("the next string is %q", got)
	}
}

// FuzzReader: whatever it reads, it does not panic, and reads no more than there is.
func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 2, 'a', 'b', 0x80, 1}, []byte("fnistu"))
	f.Fuzz(func(t *testing.T, data, calls []byte) {
		r := Reader{Data: data}
		for _, c := range calls {
			before := len(r.Data)
			switch c % 6 {
			case 0:
				r.Format(1)
			case 1:
				r.Number()
			case 2:
				r.Int32()
			case 3:
				r.Bytes()
			case 4:
				r.Time()
			case 5:
				r.Uint64()
			}
			if len(r.Data) > before || (r.Err == nil && len(r.Data) == before) {
				t.Fatalf("of %d bytes %d are left", before, len(r.Data))
			}
		}
	})
}
