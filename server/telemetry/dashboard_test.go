package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// TestTheDashboardShowsWhatThereIs: every metric in it is one that a server shows, and the
// headline is among them.
func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../packaging/grafana.json")
	check.OK(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	check.OK(t, json.Unmarshal(data, &dashboard))
	tel := open(t, Config{})
	everything(t, tel)
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(scrape(t, tel), -1) {
		shown[m[1]] = true
		if m[2] == "histogram" {
			shown[m[1]+"_bucket"] = true
		}
	}
	name := regexp.MustCompile(`\b(abide|go|process)_[a-z_]+\b`)
	seen := map[string]bool{}
	check := func(where, expr string) {
		found := name.FindAllString(expr, -1)
		if len(found) == 0 && expr != "" {
			t.Errorf("%s shows nothing: %s", where, expr)
		}
		for _, metric := range found {
			seen[metric] = true
			if !shown[metric] {
				t.Errorf("%s shows %s, which is no metric", where, metric)
			}
		}
		if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
			t.Errorf("%s: the parentheses of %s do not match", where, expr)
		}
	}
	for i, p := range dashboard.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
		for _, q := range dashboard.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies on %s", p.Title, q.Title)
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		check("a variable", v.Definition)
	}
	if !seen["abide_timer_lateness_seconds_bucket"] || len(seen) < 30 {
		t.Errorf("it shows %d metrics", len(seen))
	}
}
