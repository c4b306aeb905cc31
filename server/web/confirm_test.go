package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide"
)

func TestChangesOfAllThatMatchAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"nap-1", "nap-2", "nap-3"} {
		w.start("nap", id, "", abide.Running)
	}
	w.start("order", "order-1", "acme", abide.Running)
	for query, words := range map[string]string{
		"": "Change 4 instances", "?orchestration=nap": "Change 3 instances", "?tenant=default": "Change 3 instances", "?tenant=acme&status=running,failed": "Change 1 instance",
		"?status=failed": "Change 0 instances",
	} {
		w.contains(w.see("/instances/matching"+query), words)
	}
	for name, tt := range map[string]struct {
		pairs []string
		want  string // what the page says, or nothing if it is done
	}{
		"no filter":              {[]string{"kind", "resume", "counted", "4"}, "Type the number"},
		"no filter, confirmed":   {[]string{"kind", "resume", "counted", "4", "confirm", "4"}, ""},
		"only a tenant":          {[]string{"kind", "resume", "tenant", "default", "counted", "3"}, "Type the number"},
		"a filter":               {[]string{"kind", "resume", "orchestration", "nap", "counted", "3"}, ""},
		"terminate":              {[]string{"kind", "terminate", "orchestration", "none", "counted", "3"}, "Type the number"},
		"delete, another number": {[]string{"kind", "delete", "orchestration", "none", "counted", "3", "confirm", "2"}, "Type the number"},
		"delete, nothing shown":  {[]string{"kind", "delete", "orchestration", "none"}, "Type the number"},
		"terminate, confirmed":   {[]string{"kind", "terminate", "orchestration", "none", "counted", "5002", "confirm", "5,002"}, ""},
		"nothing matches":        {[]string{"kind", "resume", "status", "failed", "counted", "0"}, "No instance matches"},
	} {
		a := w.post("/instances/matching", tt.pairs...)
		if tt.want == "" && a.status != http.StatusSeeOther || tt.want != "" && (a.status != http.StatusBadRequest || !strings.Contains(a.body, tt.want)) {
			t.Errorf("%s: status %d, want %q", name, a.status, tt.want)
		}
	}
}

func TestNothingTickedWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for back, to := range map[string]string{
		"/instances?status=running": "/instances?status=running&done=none-ticked", "https://elsewhere.example/instances?": "/instances?done=none-ticked", "": "/instances?done=none-ticked",
	} {
		a := w.get("/instances/selected?kind=suspend&back=" + urlEscape(back))
		if a.status != http.StatusSeeOther || a.header.Get("Location") != to {
			t.Errorf("back to %q: status %d to %q, want %q", back, a.status, a.header.Get("Location"), to)
		}
	}
	w.contains(w.see("/instances?done=none-ticked"), "No row is ticked")
}
