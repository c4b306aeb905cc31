package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for machines without zones

	"github.com/cockroachdb/datadriven"

	"github.com/abidehq/abide/internal/cron"
)

// TestScripts runs the scripts in testdata. Their commands take an expression per line:
//
//	parse                     prints the expression as String gives it, or the error
//	next after=TIME [n=N]     prints the next N times (3 if not said)
//	prev before=TIME [n=N]    prints the N times before, the latest first
//
// The last two also take zone=, gap= and fold=. A time is local, such as
// 2026-03-29T01:00, or has an offset.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSuffix(line, "\n")
				e, err := cron.Parse(line)
				switch {
				case err != nil:
					fmt.Fprintln(&out, err)
				case d.Cmd == "parse":
					fmt.Fprintln(&out, e)
				default:
					fmt.Fprintln(&out, e)
					printTimes(t, &out, d, e)
				}
			}
			return out.String()
		})
	})
}

// printTimes prints what a rule answers, each once and each time with its offset.
func printTimes(t *testing.T, out *strings.Builder, d *datadriven.TestData, e cron.Expression) {
	t.Helper()
	rule := cron.Rule{Expression: e, Location: time.UTC}
	n, step, at := 3, cron.Rule.Next, time.Time{}
	for _, arg := range d.CmdArgs {
		var err error
		switch value := arg.Vals[0]; arg.Key {
		case "zone":
			rule.Location, err = time.LoadLocation(value)
		case "gap":
			err = rule.Gap.UnmarshalText([]byte(value))
		case "fold":
			err = rule.Fold.UnmarshalText([]byte(value))
		case "n":
			_, err = fmt.Sscan(value, &n)
		case "after", "before":
			at, err = readTime(value, rule.Location)
		default:
			err = fmt.Errorf("no such argument: %s", arg.Key)
		}
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	if d.Cmd == "prev" {
		step = cron.Rule.Prev
	}
	for range n {
		found, ok := step(rule, at)
		if !ok {
			fmt.Fprintln(out, "  never")
			return
		}
		fmt.Fprintln(out, " ", found.Format("Mon 2006-01-02 15:04:05 -07:00"))
		at = found
	}
}

// readTime takes the zone to be known: zone= stands before the time.
func readTime(text string, zone *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.ParseInLocation("2006-01-02T15:04", text, zone)
}
