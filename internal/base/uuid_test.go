package base

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestUUIDIsOfVersion7, as another library reads it.
func TestUUIDIsOfVersion7(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{noon, noon.Add(123 * time.Millisecond), time.UnixMilli(0), time.UnixMilli(1<<48 - 1)} {
		text := NewUUID(at)
		id, err := uuid.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if id.Version() != 7 || id.Variant() != uuid.RFC4122 || id.String() != text {
			t.Errorf("%s has version %d and variant %v", text, id.Version(), id.Variant())
		}
		ms := int64(0)
		for _, b := range id[:6] {
			ms = ms<<8 | int64(b)
		}
		if ms != at.UnixMilli() {
			t.Errorf("%s is of %d ms, want %d", text, ms, at.UnixMilli())
		}
	}
	if text := NewUUID(time.Date(1066, 10, 14, 9, 0, 0, 0, time.UTC)); text[:13] != "00000000-0000" {
		t.Errorf("%s is of a time before 1970, and does not begin with 0", text)
	}
}

// TestUUIDsAreInTheOrderOfTime, and those of one millisecond differ.
func TestUUIDsAreInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(time.Time) string{"UUID": NewUUID, "ID": NewID} {
		last := ""
		for i := range 1000 {
			id := make(noon.Add(time.Duration(i*i) * time.Millisecond))
			if id <= last || len(id) < len(last) {
				t.Fatalf("%s %s was made after %s", name, id, last)
			}
			last = id
		}
		seen := map[string]bool{}
		for range 10_000 {
			seen[make(noon)] = true
		}
		if len(seen) != 10_000 {
			t.Errorf("%s: of 10,000 there are %d different ones", name, len(seen))
		}
	}
}

// TestUUIDsAreRandom in each bit that is not the time, the version or the variant.
func TestUUIDsAreRandom(t *testing.T) {
	t.Parallel()
	var ones, zeros uuid.UUID
	for range 200 {
		id := uuid.MustParse(NewUUID(noon))
		for i, b := range id {
			ones[i] |= b
			zeros[i] |= ^b
		}
	}
	fixed := uuid.UUID{6: 0xf0, 8: 0xc0}
	for i := 6; i < len(ones); i++ {
		if both := ones[i] & zeros[i]; both != ^fixed[i] {
			t.Errorf("of byte %d the bits %08b are random, want %08b", i, both, ^fixed[i])
		}
	}
}

func TestUUIDsAsBytes(t *testing.T) {
	t.Parallel()
	id := NewUUID(time.Unix(1_772_366_400, 0))
	if got := UUIDText(UUIDBytes(id)); got != id {
		t.Errorf("%s comes back as %q", id, got)
	}
	for _, text := range []string{"", "x", id[1:], id + "0", strings.Replace(id, "-", "0", 1), "g" + id[1:], strings.ToUpper(id) + "-"} {
		if got := UUIDBytes(text); got != nil {
			t.Errorf("%q is taken for the UUID %x", text, got)
		}
	}
	if got := UUIDText([]byte("short")); got != "" {
		t.Errorf("five bytes are taken for the UUID %s", got)
	}
}
