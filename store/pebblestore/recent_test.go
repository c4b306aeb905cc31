package pebblestore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

func numbered(i int) store.Key { return store.Key{Queue: "q", Name: strconv.Itoa(i)} }

// flushTo returns a flush that has written everything up to a sequence number.
func flushTo(seq int) pebble.FlushInfo {
	out := make([]pebble.TableInfo, 2)
	for range seq {
		out[1].LargestSeqNum++
	}
	return pebble.FlushInfo{Output: out}
}

// TestRecentKnowsWhatMayNotBeInTables: a key is known until a flush has written the batch
// that it was in, however many flushes end before that, and not much longer.
func TestRecentKnowsWhatMayNotBeInTables(t *testing.T) {
	t.Parallel()
	const batches = 60
	for _, behind := range []int{1, 2, 40} {
		t.Run(fmt.Sprintf("flushes %d batches behind", behind), func(t *testing.T) {
			t.Parallel()
			r := newRecent()
			record := func(i int) store.RecordKey { return store.RecordKey{Kind: "q", ID: strconv.Itoa(i)} }
			for i := 1; i <= batches; i++ {
				r.addKey(numbered(i), uint64(i))
				r.addRecord(record(i), uint64(i))
				flushed := max(0, i-behind)
				r.flushEnd(flushTo(flushed))
				for j := flushed + 1; j <= i; j++ {
					if !r.hasKey(numbered(j)) || !r.hasRecord(record(j)) {
						t.Fatalf("after batch %d, with those up to %d in tables, batch %d is not known", i, flushed, j)
					}
				}
				if n := len(r.filters); n > behind+1 {
					t.Fatalf("after batch %d there are %d filters", i, n)
				}
			}
			for j := 1; j < batches-2*behind; j++ {
				if r.hasKey(numbered(j)) {
					t.Errorf("batch %d is in tables, and still known", j)
				}
			}
		})
	}
}

// TestRecentKeepsWhatHasNoNumber: of a large batch the sequence number is not known. It is
// kept until what comes after it is in tables.
func TestRecentKeepsWhatHasNoNumber(t *testing.T) {
	t.Parallel()
	r := newRecent()
	r.addKey(numbered(1), unknownSeq)
	r.flushEnd(flushTo(5))
	if !r.hasKey(numbered(1)) {
		t.Error("it has forgotten a key that may be in no table")
	}
	r.addKey(numbered(2), 7)
	r.flushEnd(flushTo(6))
	if !r.hasKey(numbered(1)) {
		t.Error("it has forgotten a key that may be in no table, after another one")
	}
	r.flushEnd(flushTo(7))
	if r.hasKey(numbered(1)) {
		t.Error("it knows a key that is in tables")
	}
}

// TestRecentDoesNotCountFlushesThatFail: they have written nothing.
func TestRecentDoesNotCountFlushesThatFail(t *testing.T) {
	t.Parallel()
	r := newRecent()
	r.addKey(numbered(0), 1)
	for i := 1; i < 30; i++ {
		info := flushTo(i)
		info.Err = errors.New("disk full")
		r.flushEnd(info)
		r.addKey(numbered(i), uint64(i+1))
	}
	if !r.hasKey(numbered(0)) {
		t.Error("it has forgotten a key that is in no table")
	}
}

// TestRecentIsRarelyWrong: what was not written is not known, but for a few.
func TestRecentIsRarelyWrong(t *testing.T) {
	t.Parallel()
	r := newRecent()
	const written, asked = 200_000, 100_000
	for i := range written {
		r.addKey(numbered(i), uint64(i+1))
	}
	wrong := 0
	for i := range asked {
		if r.hasKey(numbered(written + i)) {
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
	r.oldMemtables = true
	for _, flushed := range []int{10, 20, 29} {
		r.flushEnd(flushTo(flushed))
		if !r.hasKey(store.Key{Queue: "q", Name: "never written"}) {
			t.Fatal("it claims to know what was written before")
		}
		r.addKey(numbered(1), 30)
	}
	r.flushEnd(flushTo(30))
	if r.hasKey(store.Key{Queue: "q", Name: "never written"}) {
		t.Error("it is blind for ever")
	}
}

// TestFlushesReachRecent: a store hears of the flushes of its database, drops the filters
// of what is in tables, and finds every key and record all the same.
func TestFlushesReachRecent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	lim := defaultLimits
	lim.keys, lim.records = 1, 1
	// A flush takes as long as a few commits: what they write is not in tables after it.
	var mu sync.Mutex
	const noMore = 1 << 30 // so many are done when flushes need not wait for any
	done, more := 0, sync.NewCond(&mu)
	commitDone := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		more.Broadcast()
	}
	fs := &syncFS{FS: vfs.NewMem(), after: func(string) {}, before: func(path string) {
		mu.Lock()
		defer mu.Unlock()
		for until := min(done+20, noMore); isTable(path) && done < until; {
			more.Wait()
		}
	}}
	s, err := Open(ctx, "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: fs, tune: busy, limits: &lim})
	if err != nil {
		t.Fatal(err)
	}
	const commits = 1000
	defer commitDone(noMore)
	record := func(i int) store.RecordKey { return store.RecordKey{Kind: "k", ID: strconv.Itoa(i)} }
	for i := range commits {
		tx := store.Tx{
			Append:     []store.Append{{Key: numbered(i), Entries: [][]byte{make([]byte, 200)}}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: record(i), Body: make([]byte, 200)}}},
		}
		if err := s.Commit(ctx, &tx); err != nil {
			t.Fatal(err)
		}
		commitDone(1)
		// What was written lately must be found, wherever it is by now.
		for j := max(0, i-30); j < i; j++ {
			for _, again := range []store.Tx{
				{Append: []store.Append{{Key: numbered(j), Entries: [][]byte{{1}}}}},
				{PutRecords: []store.PutRecord{{Record: store.Record{Key: record(j)}}}},
			} {
				if err := s.Commit(ctx, &again); !errors.Is(err, store.ErrConflict) {
					t.Fatalf("commit %d: doing what commit %d has done: %v, want %v", i, j, err, store.ErrConflict)
				}
			}
		}
	}
	s.mu.Lock()
	filters, known := len(s.recent.filters), 0
	for i := range commits {
		if s.recent.hasKey(numbered(i)) {
			known++
		}
	}
	s.mu.Unlock()
	if known > commits/4 {
		t.Errorf("of %d keys, %d are still known as being in a memtable", commits, known)
	}
	if filters > 8 {
		t.Errorf("there are %d filters", filters)
	}
	for i := range commits {
		tx := store.Tx{
			Append:     []store.Append{{Key: numbered(i), At: 1, Entries: [][]byte{{1}}}},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: record(i)}, Expect: 1}},
		}
		if err := s.Commit(ctx, &tx); err != nil {
			t.Fatalf("change what commit %d has made: %v", i, err)
		}
		commitDone(1)
	}
	commitDone(noMore)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
