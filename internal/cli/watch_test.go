package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
)

func testWatch(t *testing.T, json bool) (*watch, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	return newWatch(cmd, &output{json: json}, "ID", "STATE"), &out
}

func testItem(id, state string) item {
	return item{[2]string{"t", id}, map[string]string{"id": id, "state": state}, []cell{plain(id), plain(state)}}
}

// Only what is new or different is printed, and what is gone if the list has everything.
func TestWatchPrintsWhatChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		json bool
		want string
	}{
		{false, "ID  STATE\na   1\nb   1\nb   2\na   (gone)\n"},
		{true, `{"id":"a","state":"1"}` + "\n" + `{"id":"b","state":"1"}` + "\n" + `{"id":"b","state":"2"}` + "\n" +
			`{"tenant":"t","id":"a","deleted":true}` + "\n"},
	} {
		w, out := testWatch(t, tt.json)
		for _, step := range []struct {
			items []item
			all   bool
		}{
			{[]item{testItem("a", "1"), testItem("b", "1")}, true},
			{[]item{testItem("a", "1"), testItem("b", "2")}, true},
			{[]item{testItem("b", "2")}, false}, // a may be on another page
			{[]item{testItem("b", "2")}, true},
			{[]item{testItem("b", "2")}, true},
		} {
			if err := w.show(step.items, step.all); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != tt.want {
			t.Errorf("got\n%swant\n%s", out.String(), tt.want)
		}
	}
}

// A list that nobody tells about is read every two seconds, until the context ends, which is
// no failure; another error is.
func TestWatchPolls(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.Unix(1_800_000_000, 0))
	w, _ := testWatch(t, true)
	w.clock = clock
	ctx, cancel := context.WithCancel(t.Context())
	reads, ended := make(chan int), make(chan error)
	go func() {
		n := 0
		ended <- w.poll(ctx, func(context.Context) ([]item, bool, error) {
			n++
			reads <- n
			return nil, true, nil
		})
	}()
	<-reads
	for want := 2; want <= 4; want++ {
		for got := 0; got == 0; {
			clock.Advance(pollEvery)
			select {
			case got = <-reads:
			case <-time.After(time.Millisecond): // it was not waiting yet
			}
			if got != 0 && got != want {
				t.Fatalf("read %d, want %d", got, want)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	broken := errors.New("broken")
	w, _ = testWatch(t, true)
	if err := w.poll(t.Context(), func(context.Context) ([]item, bool, error) { return nil, false, broken }); !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
}

// What a server tells of is compared with the filter here.
func TestWatchedInstancesMatch(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	info := abide.Info{
		Ref: abide.Ref{ID: "a"}, Orchestration: "order", Status: abide.Running, StartedAt: at, Tags: map[string]string{"customer": "7"},
	}
	tenant, empty, other := "default", "", "acme"
	for _, tt := range []struct {
		name   string
		filter abide.Filter
		want   bool
	}{
		{"everything", abide.Filter{}, true},
		{"the default tenant", abide.Filter{Tenant: &tenant}, true},
		{"the empty tenant", abide.Filter{Tenant: &empty}, true},
		{"another tenant", abide.Filter{Tenant: &other}, false},
		{"orchestration", abide.Filter{Orchestrations: []string{"mail", "order"}}, true},
		{"another orchestration", abide.Filter{Orchestrations: []string{"mail"}}, false},
		{"status", abide.Filter{Statuses: []abide.Status{abide.Running}}, true},
		{"another status", abide.Filter{Statuses: []abide.Status{abide.Failed}}, false},
		{"from", abide.Filter{From: at}, true},
		{"later", abide.Filter{From: at.Add(1)}, false},
		{"to", abide.Filter{To: at.Add(1)}, true},
		{"before", abide.Filter{To: at}, false},
		{"tag", abide.Filter{Tags: map[string]string{"customer": "7"}}, true},
		{"another tag", abide.Filter{Tags: map[string]string{"customer": "8"}}, false},
		{"a tag that it has not", abide.Filter{Tags: map[string]string{"x": ""}}, false},
	} {
		w := &instancesWatch{filter: tt.filter}
		if got := w.matches(&info); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A table is as wide as the terminal at most, and the first column stays whole.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	tab := &table{width: 40}
	tab.add(plain("a-name-that-stays-whole"), plain("running"), plain(strings.Repeat("x", 50)))
	tab.add(plain("b"), plain("日本語"), plain("y\x1b[31mz\nw"))
	var out bytes.Buffer
	if err := tab.write(&out); err != nil {
		t.Fatal(err)
	}
	const want = "a-name-that-stays-whole  running  xxxxxxx…\nb                        日本語   y�[31mz…\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
