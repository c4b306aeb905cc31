package pebblestore

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// goldenStore returns a file system that has, in "data", a store that was written by a
// program of format 1: instances order-00 to order-59 of four tenants, one of which was
// deleted, each with a log and a message. Two of the messages were claimed.
func goldenStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	files, err := zip.OpenReader("testdata/store_1.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		f, err := mem.Create("data/"+path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Sync(), f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"data", ""} {
		d, err := mem.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// checkGolden checks all that is in the golden store.
func checkGolden(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
		t.Fatal(err)
	}
	var all []int
	for i := 59; i >= 0; i-- { // the time of order-59 is the first
		if i != 1 {
			all = append(all, i)
		}
	}
	for _, c := range []struct {
		statuses, names []string
		tenant          *string
	}{{}, {statuses: []string{"running"}}, {statuses: []string{"done", "failed"}}, {names: []string{"refund"}}, {tenant: new("acme")}, {tenant: new("")}} {
		q := store.Query{Kind: "instance", Statuses: c.statuses, Names: c.names, Tenant: c.tenant}
		var want, got []string
		for _, i := range all {
			status, name, tenant := []string{"running", "done", "failed"}[i%3], []string{"order", "refund"}[i%2], []string{"", "acme", "beta", "gamma"}[i%4]
			if (len(c.statuses) == 0 || slices.Contains(c.statuses, status)) && (len(c.names) == 0 || slices.Contains(c.names, name)) && (c.tenant == nil || *c.tenant == tenant) {
				want = append(want, fmt.Sprintf("%s/order-%02d", tenant, i))
			}
		}
		n, err := s.Count(t.Context(), q, 1000)
		if err != nil || n != len(want) {
			t.Errorf("%+v: counted %d, %v, want %d", c, n, err, len(want))
		}
		q.Limit = 7
		for more := true; more; more = q.Cursor != "" {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Records {
				got = append(got, page.Records[i].Key.Tenant+"/"+page.Records[i].Key.ID)
			}
			q.Cursor = page.Next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: listed %v, want %v", c, got, want)
		}
	}
	for i := range 60 {
		key := store.Key{Queue: "turns", Tenant: []string{"", "acme", "beta", "gamma"}[i%4], Name: fmt.Sprintf("order-%02d", i)}
		log, err := s.ReadLog(t.Context(), key, 0)
		if err != nil || len(log.Entries) != 2 || string(log.Entries[0]) != "started" {
			t.Errorf("log of %v: %v, %v", key, log, err)
		}
	}
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order@1"}, Max: 100, Lease: time.Minute})
	if err != nil || len(claims) != 30 {
		t.Fatalf("claimed %d keys, %v, want 30", len(claims), err)
	}
	again := 0
	for i := range claims {
		again += claims[i].Messages[0].Attempt - 1
	}
	if again != 2 {
		t.Errorf("%d messages were claimed before, want 2", again)
	}
}

// TestMigration: a store that a program of format 1 has written becomes one of this format
// when it is opened, and stays as it is.
func TestMigration(t *testing.T) {
	t.Parallel()
	mem := goldenStore(t)
	for i := range 2 {
		var log strings.Builder
		s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start.Add(time.Duration(i) * time.Hour / 2)), Logger: slog.New(slog.NewTextHandler(&log, nil)), fs: mem, tune: small})
		if err != nil {
			t.Fatal(err)
		}
		if migrated := strings.Contains(log.String(), `msg="store migrated"`); migrated != (i == 0) {
			t.Errorf("opened %d times before, and the log says:\n%s", i, log.String())
		}
		if i == 0 {
			checkGolden(t, s)
		}
		if err := s.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
			t.Fatal(err)
		}
		if format, err := s.readVersion("format", metaFormat); err != nil || format != formatVersion {
			t.Errorf("format %d, %v", format, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMigrationOfTerms: a store of format 2 gets the index of terms, whole also if it is cut short in
// between.
func TestMigrationOfTerms(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	open := func(ctx context.Context, o Options) (*Store, error) {
		o.Clock, o.Logger, o.fs, o.tune = base.NewManual(start), quiet(), mem, small
		return Open(ctx, "data", o)
	}
	s, err := open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		commitTo(t, s, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{
			Key: store.RecordKey{Kind: "k", Tenant: []string{"", "acme"}[i%2], ID: fmt.Sprintf("%02d", i)}, Time: start,
			Tags: map[string]string{"ten": fmt.Sprint(i / 10), "all": "yes"},
		}}}})
	}
	b := s.db.NewBatch()
	err = errors.Join(b.DeleteRange([]byte{tagTerm}, []byte{tagTerm + 1}, nil), b.Set(metaFormat, []byte("2"), nil), b.Commit(pebble.Sync), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	// One record in a batch, and an end after each of some batches.
	one := defaultLimits
	one.migrate = 1
	for i := range 20 {
		if s, err = open(&endsAfter{Context: t.Context(), calls: 5 + i}, Options{limits: &one}); err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
		t.Fatal(err)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagTerm}, UpperBound: []byte{tagTerm + 1}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for found := it.First(); found; found = it.Next() {
		n++
	}
	if err := it.Close(); err != nil || n != 100 {
		t.Errorf("the index has %d entries, %v, want 100", n, err)
	}
}

// endsAfter is a context that ends after some calls of Err.
type endsAfter struct {
	context.Context
	calls int
}

func (e *endsAfter) Err() error {
	if e.calls--; e.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestMigrationThatIsCutShort kills a migration at each of its syncs, in turn with and
// without what was not synced, and opens what is left.
func TestMigrationThatIsCutShort(t *testing.T) {
	t.Parallel()
	mem := goldenStore(t)
	one := defaultLimits
	one.migrate = 1
	var mu sync.Mutex
	var kills []*vfs.MemFS
	opening := true
	hook := func(string) {
		mu.Lock()
		defer mu.Unlock()
		if !opening {
			return
		}
		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: len(kills) % 2 * 100, RNG: rand.New(rand.NewPCG(1, 2))}
		kills = append(kills, mem.CrashClone(cfg))
	}
	s, err := Open(t.Context(), "data", Options{
		Clock: base.NewManual(start), Logger: quiet(), tune: small, limits: &one,
		fs: &syncFS{FS: mem, before: hook, after: func(string) {}},
	})
	mu.Lock()
	opening = false
	mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	partly := 0
	for _, left := range kills {
		if refusedByFormat1(t, left) {
			partly++
		}
		s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: left, tune: small})
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if partly < 40 {
		t.Errorf("%d of %d kills were in the middle, want one for each of 44 records", partly, len(kills))
	}
}

// refusedByFormat1 reports whether a program of format 1 refuses what a kill has left. It
// must, if the shared index has anything, since it would not keep the index up to date.
func refusedByFormat1(t *testing.T, left *vfs.MemFS) bool {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{
		FS: left.CrashClone(vfs.CrashCloneCfg{}), Comparer: comparer, Logger: pebbleLogger{quiet(), func(error) {}}, ReadOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	format, closer, err := db.Get(metaFormat)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagShared}, UpperBound: []byte{tagShared + 1}})
	if err != nil {
		t.Fatal(err)
	}
	begun := it.First()
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if begun && string(format) == "1" {
		t.Error("the shared index has entries, and a program of format 1 can open the store")
	}
	return string(format) == strconv.Itoa(formatVersion)
}

// TestMigrationThatIsCancelled: a migration ends with the call that opens the store, and goes
// on with the next one.
func TestMigrationThatIsCancelled(t *testing.T) {
	t.Parallel()
	mem := goldenStore(t)
	one := defaultLimits
	one.migrate = 1
	ctx, cancel := context.WithCancel(t.Context())
	var syncs atomic.Int32
	_, err := Open(ctx, "data", Options{
		Clock: base.NewManual(start), Logger: quiet(), tune: small, limits: &one,
		fs: &syncFS{FS: mem, before: func(string) {
			if syncs.Add(1) == 20 {
				cancel()
			}
		}, after: func(string) {}},
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("open: %v, want %v", err, context.Canceled)
	}
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: mem, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMigrationOnAFullDisk: a migration that there is no room for fails, and leaves the store
// for a time when there is.
func TestMigrationOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := &smallDisk{MemFS: goldenStore(t)}
	disk.pretend(DefaultReserve/freeingShare - 1)
	o := Options{Clock: base.NewManual(start), Logger: quiet(), fs: disk, tune: small}
	if _, err := Open(t.Context(), "data", o); !errors.Is(err, store.ErrFull) {
		t.Fatalf("open: %v, want %v", err, store.ErrFull)
	}
	disk.pretend(DefaultReserve / freeingShare)
	s, err := Open(t.Context(), "data", o)
	if err != nil {
		t.Fatal(err)
	}
	disk.pretend(1 << 40)
	checkGolden(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
