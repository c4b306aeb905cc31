package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

func historyPath(id string) string { return "/api/v1/instances/default/" + id + "/history/stream" }

// names returns the IDs and kinds of events, up to one.
func names(t *testing.T, l *listener, until func(sent) bool) string {
	t.Helper()
	var seen []string
	for {
		ev := l.event(t)
		text := ev.name
		if ev.name == "event" {
			var e struct{ Kind string }
			if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
				t.Fatalf("%+v: %v", ev, err)
			}
			text = ev.id + " " + e.Kind
		}
		seen = append(seen, text)
		if until(ev) {
			return strings.Join(seen, ", ")
		}
	}
}

func isEnd(ev sent) bool { return ev.name == "end" }

// TestAHistoryIsFollowed: each event once, in order, from any place, until the instance has
// ended.
func TestAHistoryIsFollowed(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.started("wait", "default", "w", abide.Running)
	l := listen(t, h, historyPath("w"))
	begin := names(t, l, func(ev sent) bool { return strings.Contains(ev.data, "TimerCreated") })
	const want = "1.1 TurnStarted, 1.2 ExecutionStarted, 1.3 StatusSet, 1.4 TimerCreated"
	if begin != want {
		t.Errorf("%s, want %s", begin, want)
	}
	h.want(http.StatusOK, "POST /api/v1/instances/default/w/events/go", `"on"`)
	rest := names(t, l, isEnd)
	if !strings.HasPrefix(rest, "1.5 TurnStarted, 1.6 EventReceived, ") || !strings.HasSuffix(rest, "ExecutionCompleted, end") {
		t.Errorf("after that: %s", rest)
	}
	if _, ok := l.next(); ok {
		t.Error("it continues after the end")
	}
	all := begin + ", " + rest
	history, err := h.engine.History(t.Context(), abide.Ref{ID: "w"}, 0)
	check.OK(t, err)
	check.Equal(t, "events of", strings.Count(all, ","), len(history.Events))
	for i, place := range []string{"1.0", "1.1", "1.4", fmt.Sprintf("1.%d", len(history.Events))} {
		headers, query := []string{"Last-Event-ID: " + place}, ""
		if i%2 == 1 {
			headers, query = nil, "?after="+place
		}
		got := names(t, listen(t, h, historyPath("w")+query, headers...), isEnd)
		after := all
		if _, n, _ := strings.Cut(place, "."); n != "0" {
			_, after, _ = strings.Cut(all, place+" ")
			_, after, _ = strings.Cut(after, ", ")
		}
		if got != after {
			t.Errorf("after %s: %s, want %s", place, got, after)
		}
	}
}

// TestAHistoryIsFollowedThroughExecutions: also by a client that is cut off at each.
func TestAHistoryIsFollowedThroughExecutions(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.want(http.StatusCreated, "POST /api/v1/instances", `{"orchestration":"loop","id":"l","input":1}`)
	h.until("", "l", abide.Running)
	whole, cut := listen(t, h, historyPath("l")), listen(t, h, historyPath("l"))
	var all, seen string
	// both reads on until an event of that kind. Only two executions are kept: a client that has not come to
	// the one that runs before the next begins has missed something.
	both := func(kind string) {
		until := func(ev sent) bool { return strings.Contains(ev.data, kind) }
		all += names(t, whole, until) + ", "
		seen += names(t, cut, until) + ", "
	}
	for n := 1; n < 3; n++ {
		both("ExecutionStarted")
		h.want(http.StatusOK, "POST /api/v1/instances/default/l/events/go", `1`)
		both("ExecutionContinued")
		_ = cut.body.Close()
		cut = listen(t, h, historyPath("l"), "Last-Event-ID: "+cut.last)
	}
	both("ExecutionStarted")
	h.want(http.StatusOK, "POST /api/v1/instances/default/l/events/go", `1`)
	all += names(t, whole, isEnd)
	seen += names(t, cut, isEnd)
	if all != seen {
		t.Errorf("cut off: %s\nwhole: %s", seen, all)
	}
	for _, want := range []string{"1.1 TurnStarted, ", "ExecutionContinued, 2.1 TurnStarted, ", "ExecutionContinued, 3.1 TurnStarted, ", "ExecutionCompleted, end"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is not in it once: %s", want, all)
		}
	}
	// What is not kept any more was missed.
	got := names(t, listen(t, h, historyPath("l"), "Last-Event-ID: 1.2"), isEnd)
	if !strings.HasPrefix(got, "missed, 2.1 TurnStarted, ") || !strings.HasSuffix(got, "ExecutionCompleted, end") {
		t.Errorf("after 1.2: %s", got)
	}
	got = names(t, listen(t, h, historyPath("l"), "Last-Event-ID: 9.9"), isEnd)
	if !strings.HasPrefix(got, "missed, ") {
		t.Errorf("after 9.9: %s", got)
	}
}

func TestAHistoryThatIsAnotherOneIsSaidToBe(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.started("wait", "default", "w", abide.Running)
	l := listen(t, h, historyPath("w"))
	names(t, l, func(ev sent) bool { return strings.Contains(ev.data, "TimerCreated") })
	h.want(http.StatusOK, "POST /api/v1/instances/default/w/events/go", `1`)
	names(t, l, isEnd)
	last := l.last
	h.want(http.StatusNoContent, "POST /api/v1/instances/default/w/restart", "")
	h.until("", "w", abide.Running)
	got := names(t, listen(t, h, historyPath("w"), "Last-Event-ID: "+last), func(ev sent) bool { return strings.Contains(ev.data, "TimerCreated") })
	if !strings.HasPrefix(got, "missed, 1.1 TurnStarted, ") {
		t.Errorf("after a restart: %s", got)
	}
	l = listen(t, h, historyPath("w"))
	h.want(http.StatusNoContent, "POST /api/v1/instances/default/w/terminate", "")
	names(t, l, isEnd)
	l = listen(t, h, historyPath("w"), "Last-Event-ID: 1.1")
	h.until("", "w", abide.Terminated)
	h.want(http.StatusNoContent, "DELETE /api/v1/instances/default/w", "")
	names(t, l, isEnd)
}

// TestALongHistoryIsFollowed: one that is read in several parts, and a client that follows
// an instance on which nothing happens costs next to nothing.
func TestALongHistoryIsFollowed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.start("wait", "w")
		big := strings.Repeat("x", 1<<20)
		for range 5 {
			check.OK(b, abide.NewEvent[string]("other").Raise(b.Context(), b.engine, "w", big))
		}
		rig.Pass(time.Second)
		l, conn := b.stream(historyPath("w"))
		defer conn.Close()
		c := b.collect(l)
		rig.Pass(9 * time.Minute)
		events, comments := c.get()
		history, err := b.engine.History(b.Context(), abide.Ref{ID: "w"}, 0)
		check.OK(b, err)
		if len(events) != len(history.Events) || comments < 30 {
			b.Errorf("%d events of %d, and %d beats", len(events), len(history.Events), comments)
		}
		// Not every turn changes the record: it is noticed all the same.
		check.OK(b, abide.NewEvent[int]("other").Raise(b.Context(), b.engine, "w", 1))
		rig.Pass(3 * time.Second)
		if now, _ := c.get(); len(now) <= len(events) {
			b.Error("an event that nobody waits for is not noticed")
		}
	})
}
