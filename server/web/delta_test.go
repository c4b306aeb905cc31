package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// Bounds on the page of a large instance, in bytes.
const (
	maxPage   = 200_000
	maxChange = 5_000 // the page asks once a second at most
)

// startFan starts an instance with so many children, and waits until they run.
func (w *world) startFan(children int) abide.Ref {
	w.t.Helper()
	ref := abide.Ref{Tenant: "default", ID: "fan-1"}
	w.done("/instances/new", "orchestration", "fan", "id", ref.ID, "input", fmt.Sprintf(`{"children":%d}`, children))
	w.until(abide.Ref{ID: fmt.Sprint("fan-1-part-", children-1)}, func(i abide.Info) bool { return i.Status == abide.Running })
	w.eventually(func() bool {
		page, err := w.engine.List(w.t.Context(), abide.Filter{Parent: "fan-1", Statuses: []abide.Status{abide.Pending}, Limit: 1})
		return err == nil && len(page.Instances) == 0 && page.Next == ""
	})
	return ref
}

// versionOf returns the version that a page names.
func versionOf(t *testing.T, body string) string {
	t.Helper()
	_, after, found := strings.Cut(body, `data-version="`)
	version, _, _ := strings.Cut(after, `"`)
	if !found || version == "" {
		t.Fatalf("no version: %.300s", body)
	}
	return version
}

// changeSince asks for how a page differs from a version.
func (w *world) changeSince(path, version string) (body string, next string) {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Abide-Version", version)
	a := w.do(r)
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("%s since %s: status %d, %s", path, version, a.status, a.header.Get("Content-Type"))
	}
	var d struct{ Version string }
	check.OK(w.t, json.Unmarshal([]byte(a.body), &d))
	return a.body, d.Version
}

// TestALargeInstanceIsShownInFewBytes: its page, and each change of it.
func TestALargeInstanceIsShownInFewBytes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		start  func(w *world) string
		change func(w *world, i int)
	}{
		"10,000 events": {
			func(w *world) string { w.startLong(10_000, 40); return longPage },
			func(w *world, _ int) {
				next := stepOf(w.longHistory()) + 1
				check.OK(t, approved.Raise(t.Context(), w.engine, "long-1", json.RawMessage("1")))
				w.untilStep(next)
			},
		},
		"1,000 children": {
			func(w *world) string { w.startFan(1_000); return "/instances/default/fan-1" },
			func(w *world, i int) {
				id := fmt.Sprint("fan-1-part-", i)
				fan := abide.Ref{Tenant: "default", ID: "fan-1"}
				before, err := w.engine.HistoryLength(t.Context(), fan, 1)
				check.OK(t, err)
				check.OK(t, approved.Raise(t.Context(), w.engine, id, json.RawMessage("1")))
				w.eventually(func() bool {
					n, err := w.engine.HistoryLength(t.Context(), fan, 1)
					return err == nil && n > before
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path := tt.start(w)
			page := w.see(path)
			t.Logf("the page has %d bytes", len(page))
			if len(page) > maxPage {
				t.Errorf("the page has %d bytes, want %d at most", len(page), maxPage)
			}
			same, version := w.changeSince(path, versionOf(t, page))
			w.lacks(same, `"id":"top"`, `"id":"events"`, `"id":"data"`) // the axis of the timeline may have moved
			sizes := make([]int, 0, 10)
			for i := range 10 {
				tt.change(w, i)
				var body string
				body, version = w.changeSince(path, version)
				t.Logf("change %d has %d bytes", i, len(body))
				sizes = append(sizes, len(body))
			}
			// Where the axis moves, all bars do. The page waits longer after a large change.
			slices.Sort(sizes)
			if sizes[5] > maxChange || sizes[9] > 5*maxChange || sizes[0] < 500 {
				t.Errorf("10 changes have %v bytes, want %d at most in general", sizes, maxChange)
			}
		})
	}
}

// TestAnUnknownVersionIsAnsweredWithThePage, as is another page's.
func TestAnUnknownVersionIsAnsweredWithThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "", abide.Running)
	for _, version := range []string{"", "nonsense", versionOf(t, w.see("/"))} {
		r := httptest.NewRequest(http.MethodGet, "/instances", nil)
		r.Header.Set("Abide-Version", version)
		a := w.do(r)
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("version %q: status %d, %s", version, a.status, a.header.Get("Content-Type"))
		}
		w.lacks(a.body, "<!--")
	}
}
