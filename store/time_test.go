package store_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

func TestMillis(t *testing.T) {
	t.Parallel()
	at := func(ns int64) time.Time { return time.Unix(0, ns) }
	for _, tc := range []struct {
		name         string
		t            time.Time
		up, down     int64
		hasFractions bool
	}{
		{"the zero time is 1970", time.Time{}, 0, 0, true},
		{"1970 is 0", at(0), 0, 0, false},
		{"a nanosecond counts as a millisecond for a message", at(1), 1, 0, true},
		{"a whole millisecond stays", at(1_000_000), 1, 1, false},
		{"just below a millisecond", at(999_999), 1, 0, true},
		{"just above a millisecond", at(1_000_001), 2, 1, true},
		{"before 1970 is 0", at(-1), 0, 0, true},
		{"long before 1970 is 0", time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0, true},
		{"the last second of 9999", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 253402300799000, 253402300799000, false},
		{"a zone does not matter", time.Date(1970, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)), 0, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := store.Millis(tc.t); got != tc.up {
				t.Errorf("Millis = %d, want %d", got, tc.up)
			}
			if got := store.RecordMillis(tc.t); got != tc.down {
				t.Errorf("RecordMillis = %d, want %d", got, tc.down)
			}
			if back := store.FromMillis(tc.up); !tc.hasFractions && !back.Equal(tc.t) {
				t.Errorf("FromMillis(%d) = %v, want %v", tc.up, back, tc.t)
			}
		})
	}
}

func TestFromMillisIsInUTC(t *testing.T) {
	t.Parallel()
	got := store.FromMillis(1_700_000_000_123)
	if want := time.Date(2023, 11, 14, 22, 13, 20, 123_000_000, time.UTC); got != want {
		t.Errorf("FromMillis = %v, want %v", got, want)
	}
	if back := store.Millis(got); back != 1_700_000_000_123 {
		t.Errorf("Millis(FromMillis(x)) = %d", back)
	}
}
