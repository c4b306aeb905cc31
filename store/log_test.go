package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/abidehq/abide/store"
)

// pagedLog is a store that has one log and returns it in pages of a few entries.
type pagedLog struct {
	store.Store
	entries []string
	first   int // entries before it were trimmed
	page    int
	broken  int // reading from here on fails
	reads   int
}

var errBroken = errors.New("broken disk")

func (p *pagedLog) ReadLog(_ context.Context, _ store.Key, from int) (store.LogPage, error) {
	p.reads++
	if p.broken > 0 && from >= p.broken {
		return store.LogPage{}, errBroken
	}
	page := store.LogPage{First: max(from, p.first), Length: len(p.entries)}
	for i := page.First; i < min(len(p.entries), page.First+p.page); i++ {
		page.Entries = append(page.Entries, []byte(p.entries[i]))
	}
	return page, nil
}

func TestEntriesWalksAllPages(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e"}
	for _, tc := range []struct {
		name string
		log  pagedLog
		from int
		want []string
	}{
		{"one page", pagedLog{entries: all, page: 5}, 0, all},
		{"many pages", pagedLog{entries: all, page: 2}, 0, all},
		{"from the middle", pagedLog{entries: all, page: 2}, 3, []string{"d", "e"}},
		{"beyond the end", pagedLog{entries: all, page: 2}, 9, nil},
		{"no log", pagedLog{page: 2}, 0, nil},
		{"a trimmed log", pagedLog{entries: all, first: 2, page: 2}, 0, []string{"c", "d", "e"}},
		{"a log that was trimmed to its end", pagedLog{entries: all, first: 5, page: 2}, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for entry, err := range store.Entries(t.Context(), &tc.log, goodKey, tc.from) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(entry))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestEntriesEndsWithTheErrorOfAPage(t *testing.T) {
	t.Parallel()
	log := &pagedLog{entries: []string{"a", "b", "c"}, page: 1, broken: 2}
	var got []string
	var last error
	for entry, err := range store.Entries(t.Context(), log, goodKey, 0) {
		if last = err; err == nil {
			got = append(got, string(entry))
		}
	}
	if !slices.Equal(got, []string{"a", "b"}) || !errors.Is(last, errBroken) {
		t.Errorf("got %v and %v, want two entries and the error", got, last)
	}
}

func TestEntriesReadsNoFurtherThanItsCaller(t *testing.T) {
	t.Parallel()
	log := &pagedLog{entries: []string{"a", "b", "c"}, page: 1}
	for range store.Entries(t.Context(), log, goodKey, 0) {
		break
	}
	if log.reads != 1 {
		t.Errorf("read %d pages, want 1", log.reads)
	}
}
