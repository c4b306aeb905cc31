package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cron"
)

func parse(t testing.TB, text string) cron.Expression {
	t.Helper()
	e, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestParseErrorPoints: a page must be able to mark what is wrong.
func TestParseErrorPoints(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1,2,61 * * * *",
		"\t0 0-24 * * *",
		"0  0 */9,*/99 * *",
		"0 0 1 * MON#9,TUE",
		"0 0 L-3 * *",
		" @often",
		"0 0 1 ä *",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := cron.Parse(text)
			var at *cron.ParseError
			if !errors.As(err, &at) {
				t.Fatalf("the error is %v", err)
			}
			if at.Expression != text || at.Field == "" || at.Part == "" || at.Want == "" {
				t.Errorf("something is missing: %+v", at)
			}
			if at.Column < 1 || at.Column > len(text) || !strings.HasPrefix(text[at.Column-1:], at.Part) {
				t.Errorf("at column %d there is no %q", at.Column, at.Part)
			}
		})
	}
}

func TestParseRefusesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat(" ", cron.MaxLength-len("* * * * *")) + "* * * * *"
	if _, err := cron.Parse(fits); err != nil {
		t.Error(err)
	}
	_, err := cron.Parse(" " + fits)
	if err == nil || !strings.Contains(err.Error(), "at most 256 bytes, not 257") || len(err.Error()) > 200 {
		t.Errorf("the error is %v", err)
	}
}

func TestParseRefusesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "\t\n"} {
		if _, err := cron.Parse(text); err == nil || !strings.Contains(err.Error(), "not 0") {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

// FuzzParse: whatever people write, the answer is an error or an expression that gives
// itself back and has a next time.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "0 */15 8-18 1,15 jan-mar ?", "@daily", "0 0 LW,15W * 5L,MON#2", "0 0 30 2 *", "0 0 * 2 7#5",
		"0 0 * * SAT-SUN", "0 0 ſUN", "* * * * 7/6", "0 0 \xffL * *",
	} {
		f.Add(text)
	}
	at := time.Date(2073, 1, 1, 0, 0, 0, 0, time.UTC) // 39 years before the next 29 February on a Monday
	f.Fuzz(func(t *testing.T, text string) {
		e, err := cron.Parse(text)
		if err != nil {
			if e != (cron.Expression{}) {
				t.Errorf("with an error there is an expression: %v", e)
			}
			return
		}
		if again, err := cron.Parse(e.String()); err != nil || again != e {
			t.Errorf("%q becomes %q: %v", text, e, err)
		}
		rule := cron.Rule{Expression: e}
		next, ok := rule.Next(at)
		if !ok || !next.After(at) {
			t.Errorf("after %v comes %v", at, next)
		}
		if before, ok := rule.Prev(next); ok && before.After(at) {
			t.Errorf("between %v and %v there is %v", at, next, before)
		}
	})
}
