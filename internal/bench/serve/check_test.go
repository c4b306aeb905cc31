package serve

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestListsAreChecked: a list that is not what was asked for is an error.
func TestListsAreChecked(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	rows := []listed{
		{"north", "a", "order", "running", at(1)}, {"north", "b", "order", "running", at(2)}, {"north", "c", "order", "running", at(2)},
	}
	latest := url.Values{"latest": {"true"}}
	backward := slices.Clone(rows)
	slices.Reverse(backward)
	for _, tt := range []struct {
		name string
		q    listQuery
		rows []listed
		want string // empty if it is well
	}{
		{"in order", listQuery{least: 3, match: listed{tenant: "north", orchestration: "order", status: "running"}}, rows, ""},
		{"latest first", listQuery{query: latest}, backward, ""},
		{"too few", listQuery{least: 4}, rows, "has 3 rows, want 4 to 100"},
		{"too many", listQuery{}, make([]listed, 101), "has 101 rows, want 0 to 100"},
		{"another tenant", listQuery{match: listed{tenant: "south"}}, rows, "tenant:north"},
		{"another status", listQuery{match: listed{status: "failed"}}, rows, "status:running"},
		{"another orchestration", listQuery{match: listed{orchestration: "refund"}}, rows, "orchestration:order"},
		{"what the page before had", listQuery{other: map[string]bool{"north/c": true}}, rows, "name:c"},
		{"backward", listQuery{}, backward, "is not in order"},
		{"forward", listQuery{query: latest}, rows, "is not in order"},
	} {
		err := tt.q.check(tt.rows, 1)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
	for _, path := range []string{instancesPath, timersPath} {
		if _, _, err := (&listQuery{path: path}).parse([]byte("[]")); err == nil {
			t.Errorf("what is not a list is read as one of %s", path)
		}
	}
}

func TestPagesAreChecked(t *testing.T) {
	t.Parallel()
	p := webPage{path: "/instances", mark: "<td>", least: 2}
	for text, want := range map[string]string{
		"<td>1</td><td>2</td></html>\n": "",
		"<td>1</td></html>":             `has "<td>" 1 times, want at least 2`,
		"<td>1</td><td>2":               "breaks off after 15 bytes",
	} {
		if err := p.check([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// Two changes of an instance, as a stream has them.
const (
	began = "id: x-1\nevent: change\ndata: {\"id\":\"run-0\",\"status\":\"running\",\"at\":\"2026-11-15T12:00:00Z\"}\n\n"
	ended = "id: x-2\nevent: change\ndata: {\"id\":\"run-0\",\"status\":\"completed\",\"at\":\"2026-11-15T12:00:01Z\"}\n\n"
)

// TestStreamsAreChecked: each stream is told all, once, in the same order and in the same
// words. All of them end here, which is an error that counts only if it is the first.
func TestStreamsAreChecked(t *testing.T) {
	t.Parallel()
	id := func(int) string { return "run-0" }
	for _, tt := range []struct {
		name    string
		streams []string
		want    string // empty if it is well
	}{
		{"all", []string{began + ended, ": still here\n\n" + began + "id: x-9\n\n" + ended}, ""},
		{"something else", []string{began + ended, "id: x-0\nevent: change\ndata: {\"id\":\"other\"}\n\n" + began + ended}, ""},
		{"one is lost", []string{began + ended, ended}, "was told of change 2 when it was the turn of change 1"},
		{"the last is lost", []string{began + ended, began}, "not all streams were told that instance run-0 has completed"},
		{"one comes twice", []string{began + ended, began + began}, "was told of change 1 when it was the turn of change 2"},
		{"another order", []string{began + ended, ended + began}, "was told of change 2 when it was the turn of change 1"},
		{"other words", []string{began, strings.Replace(began, "running", "pending", 1)}, "and another one"},
		{"missed", []string{began, "id\nevent: missed\ndata: {}\n\n"}, `has the event "missed"`},
		{"no JSON", []string{"id: x-1\nevent: change\ndata: run-0\n\n"}, "read a change"},
		{"too much for one", []string{ended + began, ended}, "1 of 2 streams were told"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rc := newReach("run", 2)
			var err error
			for _, text := range tt.streams {
				readErr := newFollower(io.NopCloser(strings.NewReader(text))).read(rc)
				if err == nil && !errors.Is(readErr, io.ErrUnexpectedEOF) {
					err = readErr
				}
			}
			if err == nil {
				err = rc.check(1, id)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestReachIsThatOfTheLast: a change has reached all streams when it has reached the last.
func TestReachIsThatOfTheLast(t *testing.T) {
	t.Parallel()
	rc := newReach("run", 2)
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	e, err := newFollower(io.NopCloser(strings.NewReader(began))).next()
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{30 * time.Millisecond, 10 * time.Millisecond} {
		if err := rc.note(0, e, at.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	if h := rc.latency(); h.Count() != 1 || h.Max() != 30*time.Millisecond {
		t.Errorf("%d changes, max %v; want 1 and 30ms", h.Count(), h.Max())
	}
	if completed, told := rc.progress(); completed != 0 || told != 2 {
		t.Errorf("%d have completed, %d told; want 0 and 2", completed, told)
	}
}
