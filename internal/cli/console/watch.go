package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
)

// PollEvery is the interval at which a watched list is read where there is no stream of changes.
const PollEvery = 2 * time.Second

// Watching is the flag of lists that can be watched.
type Watching struct{ Watch bool }

// AddTo gives a command the flag.
func (w *Watching) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.Watch, "watch", "w", false, "keep running, and print changes")
}

// Item is something in a list that is watched.
type Item struct {
	Key   [2]string // its tenant and ID
	Value any       // for programs
	Row   []Cell    // for people
}

// Gone is what programs read of something that is not there any more.
type Gone struct {
	Tenant  string `json:"tenant,omitempty"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// Watch prints what is new in a list, and what has changed.
type Watch struct {
	w     io.Writer
	json  bool
	table *Table
	Known map[[2]string]known
	clock base.Clock
}

// Known is something that was printed.
type known struct {
	data []byte
	row  []Cell
}

// NewWatch returns a watch that prints to the output of a command.
func NewWatch(cmd *cobra.Command, out *Output, titles ...string) *Watch {
	w := cmd.OutOrStdout()
	return &Watch{w: w, json: out.IsJSON(), table: NewTable(w, titles...), Known: map[[2]string]known{}, clock: base.System{}}
}

// Poll reads a list again and again, until ctx ends. Read says too whether the list has all
// that there is: if so, what is not in it any more is gone.
func (w *Watch) Poll(ctx context.Context, read func(ctx context.Context) (items []Item, all bool, err error)) error {
	for {
		items, all, err := read(ctx)
		if err != nil {
			return Ended(ctx, err)
		}
		if err := w.Show(items, all); err != nil {
			return err
		}
		if err := base.Sleep(ctx, w.clock, PollEvery); err != nil {
			return Ended(ctx, err)
		}
	}
}

// Ended returns nothing for the error of a watch that was interrupted: that is how it ends.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Show prints those items that are new or have changed, and if these are all of them, those
// that are gone.
func (w *Watch) Show(items []Item, all bool) error {
	seen := map[[2]string]bool{}
	for _, i := range items {
		seen[i.Key] = true
		if err := w.One(i); err != nil {
			return err
		}
	}
	if !all {
		return w.Flush()
	}
	keys := slices.SortedFunc(maps.Keys(w.Known), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		if !seen[key] {
			if err := w.Remove(key); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// One prints an item if it is new or has changed.
func (w *Watch) One(i Item) error {
	data, err := json.Marshal(i.Value)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if bytes.Equal(w.Known[i.Key].data, data) {
		return nil
	}
	w.Known[i.Key] = known{data, i.Row}
	return w.put(data, i.Row)
}

// Remove says that something is gone.
func (w *Watch) Remove(key [2]string) error {
	k, ok := w.Known[key]
	if !ok {
		return nil
	}
	delete(w.Known, key)
	data, err := json.Marshal(Gone{Tenant: key[0], ID: key[1], Deleted: true})
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	row := slices.Clone(k.row)
	row[len(row)-1] = Cell{"(gone)", Faint}
	return w.put(data, row)
}

func (w *Watch) put(data []byte, row []Cell) error {
	if w.json {
		_, err := fmt.Fprintf(w.w, "%s\n", data)
		return err
	}
	w.table.Add(row...)
	return nil
}

// Flush prints the rows of the table, and forgets them.
func (w *Watch) Flush() error {
	if w.json {
		return nil
	}
	if err := w.table.Write(w.w); err != nil {
		return err
	}
	w.table.rows, w.table.written = nil, 0
	return nil
}
