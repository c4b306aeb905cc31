package console

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
)

func testWatch(t *testing.T, json bool) (*Watch, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	return NewWatch(cmd, &Output{json: json}, "ID", "STATE"), &out
}

func testItem(id, state string) Item {
	return Item{[2]string{"t", id}, map[string]string{"id": id, "state": state}, []Cell{Plain(id), Plain(state)}}
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
			items []Item
			all   bool
		}{
			{[]Item{testItem("a", "1"), testItem("b", "1")}, true},
			{[]Item{testItem("a", "1"), testItem("b", "2")}, true},
			{[]Item{testItem("b", "2")}, false}, // a may be on another page
			{[]Item{testItem("b", "2")}, true},
			{[]Item{testItem("b", "2")}, true},
		} {
			if err := w.Show(step.items, step.all); err != nil {
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
		ended <- w.Poll(ctx, func(context.Context) ([]Item, bool, error) {
			n++
			reads <- n
			return nil, true, nil
		})
	}()
	<-reads
	for want := 2; want <= 4; want++ {
		for got := 0; got == 0; {
			clock.Advance(PollEvery)
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
	if err := w.Poll(t.Context(), func(context.Context) ([]Item, bool, error) { return nil, false, broken }); !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
}

// A table is as wide as the terminal at most, and the first column stays whole.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	tab := &Table{Width: 40}
	tab.Add(Plain("a-name-that-stays-whole"), Plain("running"), Plain(strings.Repeat("x", 50)))
	tab.Add(Plain("b"), Plain("日本語"), Plain("y\x1b[31mz\nw"))
	var out bytes.Buffer
	if err := tab.Write(&out); err != nil {
		t.Fatal(err)
	}
	const want = "a-name-that-stays-whole  running  xxxxxxx…\nb                        日本語   y�[31mz…\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
