package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// logCounter counts the reads of logs, the entries that they return, and fails those from
// failAt on if it is not 0.
type logCounter struct {
	store.Store
	reads, entries, bytes atomic.Int64
	failAt                atomic.Int64
}

func (c *logCounter) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if n := c.failAt.Load(); n > 0 && int64(from) >= n {
		return store.LogPage{}, errors.New("the disk is gone")
	}
	page, err := c.Store.ReadLog(ctx, key, from)
	c.reads.Add(1)
	c.entries.Add(int64(len(page.Entries)))
	for _, e := range page.Entries {
		c.bytes.Add(int64(len(e)))
	}
	return page, err
}

// counted returns what f reads of logs.
func (c *logCounter) counted(f func()) (reads, entries, bytes int64) {
	c.reads.Store(0)
	c.entries.Store(0)
	c.bytes.Store(0)
	f()
	return c.reads.Load(), c.entries.Load(), c.bytes.Load()
}

// newLongWorld has an instance long-1 with a history of steps steps of some bytes each, which
// waits for an event. It returns the number of events of the history.
func newLongWorld(t *testing.T, steps, bytes int) (*world, *logCounter, int) {
	t.Helper()
	c := &logCounter{Store: memstore.New(memstore.Options{})}
	t.Cleanup(func() { _ = c.Close() })
	w := newWorldOn(t, c)
	events := w.startLong(steps, bytes)
	return w, c, events
}

// startLong starts long-1, and returns the number of events of its history when it waits.
func (w *world) startLong(steps, bytes int) int {
	w.t.Helper()
	w.done("/instances/new", "orchestration", "long", "id", "long-1", "input", fmt.Sprintf(`{"steps":%d,"bytes":%d}`, steps, bytes))
	return w.untilStep(steps - 1)
}

// untilStep waits until long-1 has taken a step and waits for an event, and returns the number
// of its events. A turn that was ended for its steps goes on in another one.
func (w *world) untilStep(n int) (events int) {
	w.t.Helper()
	w.eventually(func() bool {
		h := w.longHistory()
		events = len(h.Events)
		return stepOf(h) == n && h.Events[events-1].Kind != history.TurnYielded
	})
	return events
}

func (w *world) longHistory() abide.History {
	w.t.Helper()
	h, err := w.engine.History(w.t.Context(), abide.Ref{ID: "long-1"}, 0)
	check.OK(w.t, err)
	return h
}

// stepOf returns the number of the last step of a history, -1 if there is none.
func stepOf(h abide.History) (n int) {
	for _, e := range slices.Backward(h.Events) {
		if _, err := fmt.Sscanf(e.Name, "step-%d", &n); err == nil {
			return n
		}
	}
	return -1
}

const longPage = "/instances/default/long-1"

// TestALongHistoryIsShownInPart: the page reads the newest part, says that it is one, and
// leads to the others.
func TestALongHistoryIsShownInPart(t *testing.T) {
	t.Parallel()
	const steps = 5000
	w, c, total := newLongWorld(t, steps, 200)
	var body string
	reads, _, bytes := c.counted(func() { body = w.see(longPage) })
	if reads > 5 || bytes > 3<<20 {
		t.Errorf("one look at a history of %d events: %d reads of %d bytes", total, reads, bytes)
	}
	part := comma(total-999) + " to " + comma(total) + " of " + comma(total)
	w.contains(body,
		"Only of events "+part+": a part of the history.", "Only what events "+part+" asked for.",
		"Events "+comma(total-99)+" to "+comma(total)+" of "+comma(total), "Step step-4999 completed",
		`<span class="kind">event</span> <strong>approved</strong>, since`, "&#34;steps&#34;: 5000")
	w.lacks(body, "nothing else is open", "Step step-100 completed", "Newer", "Newest")

	// Along the pages to the first event, each event is listed once.
	seen, pages := 0, 0
	for at := longPage; pages <= total/100; pages++ {
		reads, _, _ := c.counted(func() { body = w.see(at) })
		if reads > 6 {
			t.Errorf("page %s: %d reads", at, reads)
		}
		seen += strings.Count(body, `<span class="number">`)
		if !strings.Contains(body, ">Older<") {
			break
		}
		at, _, _ = strings.Cut(link(t, body, "Older"), "#")
	}
	if seen != total {
		t.Errorf("%d pages list %d events, want %d", pages, seen, total)
	}
	w.contains(body, "Child parcel started:", "Timer window set", "Newer", "Newest")
	check.Equal(t, "the newest ones are at", link(t, body, "Newest"), longPage+"#events")
	body = w.see(longPage + "?events=1500")
	w.contains(body, "Only of events 501 to 1,500 of "+comma(total), "Events 1,401 to 1,500 of "+comma(total))
}

// TestAWindowEndsAtItsLimit: a history of as many events as a page reads is whole.
func TestAWindowEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	w, _, total := newLongWorld(t, 980, 10)
	raise := func(n int) {
		t.Helper()
		for total < n {
			next := stepOf(w.longHistory()) + 1
			check.OK(t, approved.Raise(t.Context(), w.engine, "long-1", json.RawMessage("1")))
			total = w.untilStep(next)
		}
	}
	if total > 1000 {
		t.Fatalf("it has %d events", total)
	}
	w.lacks(w.see(longPage), "a part of the history", "Only what events")
	raise(1001)
	w.contains(w.see(longPage), "a part of the history", "Only what events", " of "+comma(total))
}

// TestARefreshReadsWhatHasChanged: if nothing has, no event is read; if a turn was taken that
// the record does not tell of, it is shown.
func TestARefreshReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	w, c, total := newLongWorld(t, 3000, 10)
	w.see(longPage)
	old := longPage + "?events=700"
	w.see(old)
	for range 3 {
		for _, page := range []string{longPage, old} {
			// The record does not tell of each turn: the length of the log does.
			if reads, entries, _ := c.counted(func() { w.see(page) }); reads > 2 || entries != 0 {
				t.Errorf("nothing has changed: %s took %d reads of %d entries", page, reads, entries)
			}
		}
	}
	check.OK(t, approved.Raise(t.Context(), w.engine, "long-1", json.RawMessage(`{"by":"an operator"}`)))
	grown := w.untilStep(3000)
	var body string
	if reads, _, _ := c.counted(func() { body = w.see(longPage) }); reads == 0 || reads > 5 {
		t.Errorf("the history has grown: %d reads", reads)
	}
	w.contains(body, "Step step-3000 completed", comma(grown)+" of "+comma(grown))
	if grown <= total {
		t.Fatalf("%d events after %d", grown, total)
	}
	w.done(longPage+"/terminate", "reason", "enough")
	w.until(abide.Ref{ID: "long-1"}, func(i abide.Info) bool { return i.Status == abide.Terminated })
	w.contains(w.see(longPage), "Terminated: enough")
	if reads, _, _ := c.counted(func() { w.see(longPage) }); reads != 0 {
		t.Errorf("it has ended, and nothing has changed: %d reads", reads)
	}
	w.done(longPage + "/restart")
	w.eventually(func() bool { return !strings.Contains(w.see(longPage), "Terminated: enough") })
}

// TestLargeEventsMakeASmallWindow: bytes bound what is read, too.
func TestLargeEventsMakeASmallWindow(t *testing.T) {
	t.Parallel()
	w, c, total := newLongWorld(t, 60, 100<<10)
	var body string
	reads, _, bytes := c.counted(func() { body = w.see(longPage) })
	if reads > 10 || bytes > 10<<20 {
		t.Errorf("one look: %d reads of %d bytes", reads, bytes)
	}
	w.contains(body, "a part of the history", "Step step-59 completed", " to "+comma(total)+" of "+comma(total))
	if _, entries, _ := c.counted(func() { w.see(longPage) }); entries != 0 {
		t.Errorf("nothing has changed, and %d entries were read", entries)
	}
}

// TestRawHistoryIsSentInParts: it is the same JSON as of the whole history, and what cannot be
// sent to its end is not taken for all of it.
func TestRawHistoryIsSentInParts(t *testing.T) {
	t.Parallel()
	w, c, _ := newLongWorld(t, 40, 100<<10)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	h, err := w.engine.History(t.Context(), abide.Ref{ID: "long-1"}, 0)
	check.OK(t, err)
	want, err := json.MarshalIndent(h, "", "  ")
	check.OK(t, err)
	var got answer
	reads, _, _ := c.counted(func() { got = w.get(longPage + "/history.json") })
	if reads < 4 {
		t.Errorf("%d bytes were read in %d reads", len(want), reads)
	}
	if got.status != http.StatusOK || got.body != string(want)+"\n" {
		t.Errorf("status %d, %d bytes, want %d as package json writes them", got.status, len(got.body), len(want)+1)
	}
	if a := w.get("/instances/default/nobody/history.json"); a.status != http.StatusNotFound {
		t.Errorf("of nobody: status %d", a.status)
	}
	w.start("elsewhere", "import-1", "")
	if a := w.get("/instances/default/import-1/history.json"); !json.Valid([]byte(a.body)) || !strings.Contains(a.body, `"events": []`) {
		t.Errorf("without events: %s", a.body)
	}

	c.failAt.Store(30)
	resp, err := http.Get(server.URL + longPage + "/history.json")
	check.OK(t, err)
	defer resp.Body.Close()
	var v any
	if err := json.NewDecoder(resp.Body).Decode(&v); err == nil {
		t.Error("a part of a history was sent as if it were all of it")
	}
}

// comma writes a number as the page does.
func comma(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
