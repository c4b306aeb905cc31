package base_test

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

func TestShortenLeavesWholeCharacters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "short", strings.Repeat("x", 30), strings.Repeat("ä", 30), strings.Repeat("日", 30), "a\xffb\xfe" + strings.Repeat("\xf0", 30)} {
		for most := range 40 {
			got := base.Shorten(text, most)
			valid := strings.ToValidUTF8(text, "?")
			switch {
			case len(got) > most, got != strings.ToValidUTF8(got, ""), !strings.HasPrefix(valid, got):
				t.Errorf("%q becomes %q, of at most %d bytes", text, got, most)
			case len(text) <= most && got != valid, len(text) > most && valid == text && len(got) < most-4:
				t.Errorf("%q becomes %q, although %d bytes are allowed", text, got, most)
			}
		}
	}
}

// What is due is never early, and never at the number that stands for no time.
func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	zone := time.FixedZone("", 3600)
	for _, tt := range []struct {
		name  string
		at    time.Time
		delay time.Duration
		want  time.Time
	}{
		{"now", time.Time{}, 0, now},
		{"after a delay", time.Time{}, time.Hour, now.Add(time.Hour)},
		{"rounded up", now.Add(1), 0, now.Add(time.Millisecond)},
		{"a delay is rounded up", time.Time{}, 1500 * time.Microsecond, now.Add(2 * time.Millisecond)},
		{"in UTC", now.In(zone), 0, now},
		{"in the past", now.Add(-time.Hour), 0, now.Add(-time.Hour)},
		{"at the epoch", time.Unix(0, 0), 0, time.UnixMilli(1)},
	} {
		if got := base.Due(tt.at, tt.delay, now); !got.Equal(tt.want) || got.Location() != time.UTC {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
