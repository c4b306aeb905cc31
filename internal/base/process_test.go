package base

import "testing"

// TestCleanText: what is returned is UTF-8 without control characters, and short enough.
func TestCleanText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"shop:42", 64, "shop:42"},
		{"a\nb\x7fc\u0085", 64, "a?b?c?"},
		{"a\xffb", 64, "a?b"},
		{"läufer", 2, "l"},
		{"läufer", 3, "lä"},
		{"läufer", 0, ""},
	} {
		if got := CleanText(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
