package cron_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cron"
)

// BenchmarkNext goes from each time to the next, in a zone that moves its clock.
func BenchmarkNext(b *testing.B) {
	for _, text := range []string{
		"* * * * * *",
		"30 9 * * MON-FRI",
		"30 2 * * *",
		"0 0 LW * *",
		"0 0 29 2 1",
		"0 0 29 2 *",
		"0 0 * 2 MON#5",
	} {
		b.Run(text, func(b *testing.B) {
			benchmark(b, cron.Rule{Expression: parse(b, text), Location: berlin(b)}, cron.Rule.Next)
		})
	}
	b.Run("UTC/* * * * * *", func(b *testing.B) {
		benchmark(b, cron.Rule{Expression: parse(b, "* * * * * *")}, cron.Rule.Next)
	})
	b.Run("never/30 2 * 3 SUNL", func(b *testing.B) {
		benchmark(b, cron.Rule{Expression: parse(b, "30 2 * 3 SUNL"), Location: berlin(b), Gap: cron.Skip}, cron.Rule.Next)
	})
}

// BenchmarkPrev goes from each time to the one before.
func BenchmarkPrev(b *testing.B) {
	for _, text := range []string{"* * * * * *", "30 9 * * MON-FRI", "0 0 * 2 MON#5"} {
		b.Run(text, func(b *testing.B) {
			benchmark(b, cron.Rule{Expression: parse(b, text), Location: berlin(b)}, cron.Rule.Prev)
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parse(b, "0 */15 8-18 1,15 JAN-MAR MON-FRI")
	}
}

func berlin(b *testing.B) *time.Location {
	b.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	return zone
}

func benchmark(b *testing.B, rule cron.Rule, step func(cron.Rule, time.Time) (time.Time, bool)) {
	b.Helper()
	b.ReportAllocs()
	at, steps := noon, 0
	for b.Loop() {
		next, ok := step(rule, at)
		if steps++; !ok || steps%64 == 0 {
			next = noon // stay in this century
		}
		at = next
	}
}
