package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// Rows describes how values of type T are printed: the columns of their table, and the type W
// that their JSON is made of. Lists, watched lists and single values are all printed by it.
type Rows[T, W any] struct {
	Noun   string   // plural, for messages
	Titles []string // of the columns
	Row    func(*T) []Cell
	Wire   func(*T) W
	Key    func(*T) [2]string                // tenant and ID; for Watch and WithTenant
	Page   func(values []W, next string) any // JSON of a page; next is its page token
}

// Same is the Wire of values that are printed as they are.
func Same[T any](v *T) T { return *v }

// WithTenant returns rows whose first column is the tenant.
func (r Rows[T, W]) WithTenant() Rows[T, W] {
	row := r.Row
	r.Titles = slices.Concat([]string{"TENANT"}, r.Titles)
	r.Row = func(v *T) []Cell { return slices.Concat([]Cell{Plain(r.Key(v)[0])}, row(v)) }
	return r
}

// Wires returns the JSON values of found. It is never nil.
func (r Rows[T, W]) Wires(found []T) []W {
	values := make([]W, len(found))
	for i := range found {
		values[i] = r.Wire(&found[i])
	}
	return values
}

// WriteTable prints found as a table, or nothing if it is empty.
func (r Rows[T, W]) WriteTable(w io.Writer, found []T) error {
	if len(found) == 0 {
		return nil
	}
	t := NewTable(w, r.Titles...)
	for i := range found {
		t.Add(r.Row(&found[i])...)
	}
	return t.Write(w)
}

func (r Rows[T, W]) write(cmd *cobra.Command, out *Output, v any, found []T) error {
	return out.Print(cmd.OutOrStdout(), v, func(w io.Writer) error { return r.WriteTable(w, found) })
}

// PrintOne prints a single value: as a table of one row, or as a JSON object.
func (r Rows[T, W]) PrintOne(cmd *cobra.Command, out *Output, v T) error {
	return r.write(cmd, out, r.Wire(&v), []T{v})
}

// PrintEach prints the values that a command has changed: as a table, or as a JSON array.
func (r Rows[T, W]) PrintEach(cmd *cobra.Command, out *Output, found []T) error {
	return r.write(cmd, out, r.Wires(found), found)
}

// PrintAll prints a list that has no pages.
func (r Rows[T, W]) PrintAll(cmd *cobra.Command, out *Output, found []T) error {
	if len(found) == 0 && !out.IsJSON() {
		cmd.PrintErrf("there are no %s\n", r.Noun)
	}
	return r.write(cmd, out, r.Page(r.Wires(found), ""), found)
}

// PrintPages reads pages until there are as many values as p asks for, and prints them. If watch
// is set, it prints those that change, until ctx ends.
func (r Rows[T, W]) PrintPages(ctx context.Context, cmd *cobra.Command, out *Output, p Paging, watch bool, read ReadPage[T]) error {
	if watch {
		return r.Watch(ctx, cmd, out, func(ctx context.Context) ([]T, bool, error) {
			found, next, err := ReadPages(ctx, p, read)
			return found, next == "", err
		})
	}
	found, next, err := ReadPages(ctx, p, read)
	if err != nil {
		return err
	}
	if err := r.write(cmd, out, r.Page(r.Wires(found), next), found); err != nil {
		return err
	}
	p.SayMore(cmd, out, r.Noun, len(found), next)
	return nil
}

// Watch polls a list and prints the values that are new, have changed or are gone, until ctx
// ends. Read also reports whether it has returned the whole list: see [Watch.Poll].
func (r Rows[T, W]) Watch(ctx context.Context, cmd *cobra.Command, out *Output, read func(ctx context.Context) (found []T, all bool, err error)) error {
	return NewWatch(cmd, out, r.Titles...).Poll(ctx, func(ctx context.Context) ([]Item, bool, error) {
		found, all, err := read(ctx)
		return r.Items(found), all, err
	})
}

// Items returns found as items of a [Watch].
func (r Rows[T, W]) Items(found []T) []Item {
	items := make([]Item, len(found))
	for i := range found {
		items[i] = r.Item(&found[i])
	}
	return items
}

// Item returns v as an item of a [Watch].
func (r Rows[T, W]) Item(v *T) Item { return Item{Key: r.Key(v), Value: r.Wire(v), Row: r.Row(v)} }

// Row returns the cells of a row. A [Cell] stays as it is, a [time.Time] is printed as a local time,
// and other fields, such as strings and numbers, by [fmt.Sprint].
func Row(fields ...any) []Cell {
	cells := make([]Cell, len(fields))
	for i, field := range fields {
		switch field := field.(type) {
		case Cell:
			cells[i] = field
		case time.Time:
			cells[i] = Plain(LocalTime(field))
		default:
			cells[i] = Plain(fmt.Sprint(field))
		}
	}
	return cells
}
