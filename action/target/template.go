package target

import (
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/action"
)

// values are what placeholders stand for.
var values = map[string]func(a *action.Action) string{
	"slug":    func(a *action.Action) string { return a.Slug },
	"id":      func(a *action.Action) string { return a.ID },
	"tenant":  func(a *action.Action) string { return a.Tenant },
	"attempt": func(a *action.Action) string { return strconv.Itoa(a.Attempt) },
	"date":    func(a *action.Action) string { return planned(a).Format(time.DateOnly) },
	"time":    func(a *action.Action) string { return planned(a).Format(time.RFC3339) },
}

// planned returns the time that an action was planned for, in UTC: the nominal time of the run of a
// schedule, or the time of the request or the webhook. Retries do not change it.
func planned(a *action.Action) time.Time {
	if !a.RunAt.IsZero() {
		return a.RunAt.UTC()
	}
	return a.Trigger.At.UTC().Truncate(time.Second)
}

// template is text with placeholders.
type template []part

// part is text, or a placeholder.
type part struct {
	text  string
	value func(a *action.Action) string // nil if it is text
}

// parseTemplate reads the template of a field.
func parseTemplate(field, text string) (template, error) {
	var t template
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t = append(t, part{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal.WriteByte(text[i])
			i++
		case rest[0] == '{':
			name, _, closed := strings.Cut(rest[1:], "}")
			value, known := values[name]
			if !closed || !known {
				return nil, invalid(field, "is %q, with a placeholder at byte %d that does not exist; {slug}, {id}, {tenant}, {attempt}, {date} and {time} are allowed, and {{ and }} for braces", text, i)
			}
			flush()
			t = append(t, part{value: value})
			i += len(name) + 1
		case rest[0] == '}':
			return nil, invalid(field, "is %q, with a brace at byte %d that closes nothing; }} stands for a brace", text, i)
		default:
			literal.WriteByte(text[i])
		}
	}
	flush()
	return t, nil
}

// literal returns the text of a template without placeholders.
func (t template) literal() (string, bool) {
	switch {
	case len(t) == 0:
		return "", true
	case len(t) == 1 && t[0].value == nil:
		return t[0].text, true
	default:
		return "", false
	}
}

// expand returns the text for an action. Escape, if not nil, is applied to what
// placeholders stand for.
func (t template) expand(a *action.Action, escape func(string) string) string {
	var b strings.Builder
	for _, p := range t {
		switch {
		case p.value == nil:
			b.WriteString(p.text)
		case escape == nil:
			b.WriteString(p.value(a))
		default:
			b.WriteString(escape(p.value(a)))
		}
	}
	return b.String()
}
