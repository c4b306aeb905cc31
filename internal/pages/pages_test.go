package pages_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/abidehq/abide/internal/pages"
)

var errBroken = errors.New("broken")

// read is a list of six items in four pages, the second of which is empty. The page after the
// last one cannot be read.
func read(cursor string) (items []int, next string, err error) {
	switch cursor {
	case "":
		return []int{1, 2, 3}, "b", nil
	case "b":
		return nil, "c", nil
	case "c":
		return []int{4}, "d", nil
	case "d":
		return []int{5, 6}, "", nil
	default:
		return nil, "", errBroken
	}
}

// The items of all pages come in order, from a cursor on, each time that the sequence is used.
func TestAllPages(t *testing.T) {
	t.Parallel()
	for cursor, want := range map[string][]int{"": {1, 2, 3, 4, 5, 6}, "b": {4, 5, 6}, "d": {5, 6}} {
		all := pages.All(cursor, read)
		for range 2 {
			var got []int
			for item, err := range all {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, item)
			}
			if !slices.Equal(got, want) {
				t.Errorf("from %q: %v, want %v", cursor, got, want)
			}
		}
	}
}

// A caller that stops reads no further page.
func TestStopReadsNoFurther(t *testing.T) {
	t.Parallel()
	var pagesRead int
	for item := range pages.All("", func(cursor string) ([]int, string, error) {
		pagesRead++
		return read(cursor)
	}) {
		if item == 3 {
			break
		}
	}
	if pagesRead != 1 {
		t.Errorf("%d pages were read", pagesRead)
	}
}

// The first error ends the sequence.
func TestErrorEndsTheSequence(t *testing.T) {
	t.Parallel()
	var got []string
	for item, err := range pages.All("", func(cursor string) ([]int, string, error) {
		if cursor == "c" {
			cursor = "broken"
		}
		return read(cursor)
	}) {
		got = append(got, fmt.Sprint(item, err))
	}
	if want := []string{"1 <nil>", "2 <nil>", "3 <nil>", "0 broken"}; !slices.Equal(got, want) {
		t.Errorf("the sequence is %q", got)
	}
}
