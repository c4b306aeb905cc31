package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// reads notes from where logs are read.
type reads struct {
	store.Store
	from []int
}

func (r *reads) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	r.from = append(r.from, from)
	return r.Store.ReadLog(ctx, key, from)
}

// names returns what waits are for.
func names(waits []Wait) string {
	var all []string
	for _, w := range waits {
		all = append(all, fmt.Sprintf("%v %s", w.Kind, w.Name))
	}
	return strings.Join(all, ", ")
}

// TestWaitsReadsWhatWasAppended: Waits reads a long history once, and then what was appended to it,
// and does not take the history of an execution for that of another.
func TestWaitsReadsWhatWasAppended(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("long", func(c *replay.Context, in []byte) replay.Outcome {
			for range minFold {
				c.Step("step", func(context.Context) ([]byte, *history.Failure) { return []byte("s"), nil })
			}
			first := c.Timer("first", c.Now().Add(time.Hour))
			c.Timer("second "+string(in), c.Now().Add(48*time.Hour))
			c.Wait(first)
			receive(c, "go")
			if string(in) == "next" {
				return done("")
			}
			return replay.Outcome{Continue: &replay.Continue{Name: "long", Input: []byte("next")}}
		})
		r.serve()
		log := &reads{Store: r.tape.Store}
		client := NewClient(log, r.clock)
		waits := func(wantNames string, wantFrom ...int) {
			t.Helper()
			log.from = nil
			got, err := client.Waits(r.Context(), Ref{ID: "a"})
			r.must(err)
			want(r, "waits", names(got), wantNames)
			if wantFrom != nil && !slices.Equal(log.from, wantFrom) {
				r.Errorf("read from %v, want %v", log.from, wantFrom)
			}
		}
		length := func() int {
			page, err := r.tape.Store.ReadLog(r.Context(), Ref{ID: "a"}.key(), 0)
			r.must(err)
			return page.Length
		}
		r.begin("a", "long", "")
		r.pass(time.Second)
		waits("TimerCreated first, TimerCreated second ", 0)
		before := length()
		waits("TimerCreated first, TimerCreated second ", before)
		r.pass(time.Hour)
		waits("TimerCreated second , EventReceived go", before)
		r.raise("a", "go", "")
		r.pass(time.Second) // the next execution
		waits("TimerCreated first, TimerCreated second next")
		waits("TimerCreated first, TimerCreated second next", length())

		r.must(r.Terminate(r.Context(), Ref{ID: "a"}, ""))
		r.pass(time.Second)
		waits("", []int{}...)
		want(r, "reads of an ended instance", len(log.from), 0)
		r.must(r.Delete(r.Context(), Ref{ID: "a"}))
		r.begin("a", "long", "other")
		r.pass(time.Second)
		waits("TimerCreated first, TimerCreated second other")
	})
}

// TestFoldsAreFew: a client remembers the histories that it has read last, and no short ones.
func TestFoldsAreFew(t *testing.T) {
	t.Parallel()
	var s folds
	for i := range 2 * maxFolds {
		f := s.take(&Info{Ref: Ref{ID: fmt.Sprint(i)}})
		f.next = minFold
		s.put(f)
	}
	s.put(&fold{ref: Ref{ID: "short"}, next: minFold - 1})
	if len(s.kept) != maxFolds || s.kept[0].ref.ID != fmt.Sprint(maxFolds) {
		t.Errorf("%d are kept, from %v on", len(s.kept), s.kept[0].ref)
	}
	if f := s.take(&Info{Ref: Ref{ID: fmt.Sprint(maxFolds)}}); f.next != minFold || len(s.kept) != maxFolds-1 {
		t.Errorf("a fold in use is kept: %d", len(s.kept))
	}
}
