package natsbus

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokenIsReversible(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"acme": "acme", "Acme_2-b": "Acme_2-b", "a.b": "a%2Eb", "*": "%2A", ">": "%3E", "%2E": "%252E",
		"a b": "a%20b", "ü": "%C3%BC", "$": "%24",
	} {
		if got := token(name); got != want {
			t.Errorf("token(%q) is %s, want %s", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[.*>% a-c]+`)).Draw(t, "name")
		got := token(name)
		if strings.ContainsAny(got, ".*> \t\r\n") {
			t.Fatalf("token(%q) is %s, which is not one token", name, got)
		}
		if back, err := url.PathUnescape(got); err != nil || back != name {
			t.Fatalf("token(%q) is %s, which stands for %q, %v", name, got, back, err)
		}
	})
}

// TestTenantOfASubject is the inverse of token for the third token, and of nothing else.
func TestTenantOfASubject(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"abide.commands.acme": "acme", "abide.commands.acme.schedule.x": "acme", "abide.commands.a%2Eb": "a.b", "abide.commands.%C3%BC.x": "ü",
		"abide.commands": "", "abide.commands.": "", "abide.events.acme": "", "other.commands.acme": "",
		"abide.commands.a%2eb": "", "abide.commands.a%2": "", "abide.commands.%61cme": "", "abide.commands.ü": "",
	} {
		if got := tenantOf("abide", subject); got != want {
			t.Errorf("tenantOf(%q) is %q, want %q", subject, got, want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, other string
		want           bool
	}{
		{"a.b.>", "a.b.>", true},
		{"a.>", "a.b.>", true},
		{">", "a.b.>", true},
		{"*.b.>", "a.b.>", true},
		{"*.*.>", "a.b.>", true},
		{"a.b.*", "a.b.>", false},
		{"a.b", "a.b.>", false},
		{"a.b.c", "a.b.>", false},
		{"a.b.>", "a.>", false},
		{"a.b.c.>", "a.b.>", false},
		{"a.c.>", "a.b.>", false},
		{"a.*", "a.b", true},
		{"a.b", "a.*", false},
		{"a.b", "a.b", true},
		{"a.b.>", "a.b", false},
	} {
		if got := covers(tt.pattern, tt.other); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.pattern, tt.other, got)
		}
	}
}
