package pebblestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// TestRecentKnowsWhatMayNotBeInTables: for as long as a key may be in one of the memtables
// that there were when it was written, it is known.
func TestRecentKnowsWhatMayNotBeInTables(t *testing.T) {
	t.Parallel()
	r := newRecent()
	key := func(i int) store.Key { return store.Key{Queue: "q", Name: fmt.Sprint(i)} }
	record := func(i int) store.RecordKey { return store.RecordKey{Kind: "q", ID: fmt.Sprint(i)} }
	const flushes = 5 * flushesKept
	for i := range flushes {
		r.addKey(key(i))
		r.addRecord(record(i))
		for j := max(0, i-2*memTables); j <= i; j++ {
			if !r.hasKey(key(j)) || !r.hasRecord(record(j)) {
				t.Fatalf("after %d flushes, what was written after %d is not known", i, j)
			}
		}
		r.flushed(pebble.FlushInfo{})
	}
	forgotten := 0
	for i := range flushes {
		if !r.hasKey(key(i)) {
			forgotten++
		}
	}
	if want := flushes - flushesKept - 1; forgotten < want-1 {
		t.Errorf("%d of %d keys are forgotten, want about %d", forgotten, flushes, want)
	}
	if n := len(r.filters); n > flushesKept+2 {
		t.Errorf("there are %d filters", n)
	}
}

// TestRecentDoesNotCountFlushesThatFail: they have written nothing.
func TestRecentDoesNotCountFlushesThatFail(t *testing.T) {
	t.Parallel()
	r := newRecent()
	first := store.Key{Queue: "q", Name: "first"}
	r.addKey(first)
	for i := range 3 * flushesKept {
		r.flushed(pebble.FlushInfo{Err: errors.New("disk full")})
		r.addKey(store.Key{Queue: "q", Name: fmt.Sprint(i)})
	}
	if !r.hasKey(first) {
		t.Error("it has forgotten a key that is in no table")
	}
}

// TestRecentIsRarelyWrong: what was not written is not known, but for a few.
func TestRecentIsRarelyWrong(t *testing.T) {
	t.Parallel()
	r := newRecent()
	const written, asked = 200_000, 100_000
	for i := range written {
		r.addKey(store.Key{Queue: "q", Name: fmt.Sprint(i)})
	}
	wrong := 0
	for i := range asked {
		if r.hasKey(store.Key{Queue: "q", Name: fmt.Sprint(written + i)}) {
			wrong++
		}
	}
	if wrong > asked/500 {
		t.Errorf("of %d keys that were not written, %d are known", asked, wrong)
	}
}

// TestBlindRecentKnowsEverything until all that was there before is in tables.
func TestBlindRecentKnowsEverything(t *testing.T) {
	t.Parallel()
	r := newRecent()
	r.blind = true
	for range flushesKept {
		if !r.hasKey(store.Key{Queue: "q", Name: "never written"}) {
			t.Fatal("it claims to know what was written before")
		}
		r.flushed(pebble.FlushInfo{})
	}
	if r.hasKey(store.Key{Queue: "q", Name: "never written"}) {
		t.Error("it is blind for ever")
	}
}
