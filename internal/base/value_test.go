package base_test

import (
	"strings"
	"testing"

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
