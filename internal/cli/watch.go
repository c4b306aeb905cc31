package cli

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

// pollEvery is how often a list is read that is watched, where nobody tells what changes.
const pollEvery = 2 * time.Second

// watching is the flag of lists that can be watched.
type watching struct{ watch bool }

// addTo gives a command the flag.
func (w *watching) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.watch, "watch", "w", false, "go on, and print what changes")
}

// item is something in a list that is watched.
type item struct {
	key   [2]string // its tenant and ID
	value any       // for programs
	row   []cell    // for people
}

// gone is what programs read of something that is not there any more.
type gone struct {
	Tenant  string `json:"tenant,omitempty"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// watch prints what is new in a list, and what has changed.
type watch struct {
	w     io.Writer
	json  bool
	table *table
	known map[[2]string]known
	clock base.Clock
}

// known is something that was printed.
type known struct {
	data []byte
	row  []cell
}

func newWatch(cmd *cobra.Command, out *output, titles ...string) *watch {
	w := cmd.OutOrStdout()
	return &watch{w: w, json: out.isJSON(), table: newTable(w, titles...), known: map[[2]string]known{}, clock: base.System{}}
}

// poll reads a list again and again, until ctx ends. Read says too whether the list has all
// that there is: if so, what is not in it any more is gone.
func (w *watch) poll(ctx context.Context, read func(ctx context.Context) (items []item, all bool, err error)) error {
	for {
		items, all, err := read(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		if err := w.show(items, all); err != nil {
			return err
		}
		if err := base.Sleep(ctx, w.clock, pollEvery); err != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns nothing for the error of a watch that was interrupted: that is how it ends.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// show prints those items that are new or have changed, and if these are all of them, those
// that are gone.
func (w *watch) show(items []item, all bool) error {
	seen := map[[2]string]bool{}
	for _, i := range items {
		seen[i.key] = true
		if err := w.one(i); err != nil {
			return err
		}
	}
	if !all {
		return w.flush()
	}
	keys := slices.SortedFunc(maps.Keys(w.known), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		if !seen[key] {
			if err := w.remove(key); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

// one prints an item if it is new or has changed.
func (w *watch) one(i item) error {
	data, err := json.Marshal(i.value)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if bytes.Equal(w.known[i.key].data, data) {
		return nil
	}
	w.known[i.key] = known{data, i.row}
	return w.put(data, i.row)
}

// remove says that something is gone.
func (w *watch) remove(key [2]string) error {
	k, ok := w.known[key]
	if !ok {
		return nil
	}
	delete(w.known, key)
	data, err := json.Marshal(gone{Tenant: key[0], ID: key[1], Deleted: true})
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	row := slices.Clone(k.row)
	row[len(row)-1] = cell{"(gone)", faint}
	return w.put(data, row)
}

func (w *watch) put(data []byte, row []cell) error {
	if w.json {
		_, err := fmt.Fprintf(w.w, "%s\n", data)
		return err
	}
	w.table.add(row...)
	return nil
}

// flush prints the rows of the table, and forgets them.
func (w *watch) flush() error {
	if w.json {
		return nil
	}
	if err := w.table.write(w.w); err != nil {
		return err
	}
	w.table.rows, w.table.written = nil, 0
	return nil
}

// itemsOf makes items of what was read.
func itemsOf[T any](found []T, itemOf func(*T) item) []item {
	var items []item
	for i := range found {
		items = append(items, itemOf(&found[i]))
	}
	return items
}
