package target

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
)

func TestTemplate(t *testing.T) {
	t.Parallel()
	a := &action.Action{Slug: "s", ID: "i d", Tenant: "{slug}", Attempt: 12, RunAt: time.Date(2026, 11, 15, 3, 30, 0, 0, time.FixedZone("", 3600))}
	for text, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"{slug}":                       "s",
		"--for={slug}-{id}":            "--for=s-i d",
		"{tenant}/{attempt}":           "{slug}/12", // what is filled in is not looked at again
		"{{slug}}":                     "{slug}",
		"{{{slug}}}":                   "{s}",
		`{{"a": "{slug}", "b": {{}}}}`: `{"a": "s", "b": {}}`,
		"é{slug}é":                     "ésé",
		"{slug}-{date}":                "s-2026-11-15",
		"{time}":                       "2026-11-15T02:30:00Z",
	} {
		got, err := parseTemplate("F", text)
		if err != nil || got.expand(a, nil) != want {
			t.Errorf("%q becomes %q, %v, want %q", text, got.expand(a, nil), err, want)
		}
	}
	escaped, err := parseTemplate("F", "a b/{id}")
	if err != nil || escaped.expand(a, url.PathEscape) != "a b/i%20d" {
		t.Errorf("only what is filled in should be escaped: %q, %v", escaped.expand(a, url.PathEscape), err)
	}
}

func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"{Slug}":   `F is "{Slug}", with a placeholder at byte 0 that does not exist; {slug}, {id}, {tenant}, {attempt}, {date} and {time} are allowed`,
		"a {}":     "at byte 2",
		"{slug":    "at byte 0",
		"{ slug }": "at byte 0",
		"{{{x}":    "at byte 2",
		"slug}":    "with a brace at byte 4 that closes nothing",
		"{slug}}":  "at byte 6",
	} {
		_, err := parseTemplate("F", text)
		if !errors.Is(err, action.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error is %v, want one that says %q", text, err, says)
		}
	}
}
