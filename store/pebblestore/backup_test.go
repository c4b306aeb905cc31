package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// destination calls at before each operation on the folder of a backup, whose name begins
// with "backup", and on what leads there.
type destination struct {
	at atomic.Pointer[func(op errorfs.Op) error]
}

func (d *destination) set(at func(op errorfs.Op) error) { d.at.Store(&at) }

// String says what this is; errorfs asks for it.
func (d *destination) String() string { return "destination" }

// MaybeError calls at if the operation is one on a backup.
func (d *destination) MaybeError(op errorfs.Op) error {
	if at := d.at.Load(); at != nil && (strings.HasPrefix(op.Path, "backup") || op.Kind == errorfs.OpLink) {
		return (*at)(op)
	}
	return nil
}

// TestBackupUnderLoad makes backups while others commit, with hard links and with copies:
// each holds all that was committed before it was begun, and nothing by halves.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	mem := vfs.NewMem()
	to := &destination{}
	to.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLink && seed%2 == 0 {
			return syscall.EXDEV
		}
		return nil
	})
	load := newWorkload(base.NewManual(start), 6, seed)
	s, err := Open(t.Context(), "data", Options{Clock: load.clock, Logger: quiet(), fs: errorfs.Wrap(mem, to), tune: busy, limits: &tight})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []error, 1)
	go func() { done <- load.runAll(t.Context(), s, 100) }()
	var backups []crash
	for running := true; running; {
		select {
		case errs := <-done:
			failOn(t, errs)
			running = false
		default:
		}
		m := load.before()
		dir := fmt.Sprintf("backup-%d", len(backups))
		if err := s.Backup(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		backups = append(backups, crash{fs: mem, dir: dir, moment: load.after(m)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(backups) < 3 {
		t.Fatalf("%d backups were made, want some under load", len(backups))
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(backups)-1, func(i, j int) { backups[i], backups[j] = backups[j], backups[i] })
	for _, b := range backups[max(0, len(backups)-10):] {
		if err := Restore(t.Context(), b.dir, Options{fs: mem}); err != nil {
			t.Fatal(err)
		}
		if _, err := recoverFrom(t.Context(), load, b, true); err != nil {
			t.Errorf("%s of %d: %v", b.dir, len(backups), err)
		}
	}
}

// backedUp opens a store with something in it: a message that was claimed once, another that
// is about to expire, and a record.
func backedUp(t *testing.T, fs vfs.FS, clock *base.Manual) *Store {
	t.Helper()
	s, err := Open(t.Context(), "data", Options{Clock: clock, Logger: quiet(), fs: fs, tune: small})
	if err != nil {
		t.Fatal(err)
	}
	commitTo(t, s, &store.Tx{
		Put: []store.Message{
			{Key: store.Key{Queue: turns, Name: "a"}, ID: "m", Route: "r"},
			{Key: store.Key{Queue: turns, Name: "b"}, ID: "m", TTL: time.Minute},
		},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: kind, ID: "a"}, Time: start}}},
	})
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: turns, Routes: []string{"r"}, Max: 1, Lease: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	return s
}

// TestBackupIsInert: a backup is not opened but to be inspected, and then nothing changes.
// Restored, it is a store as it was.
func TestBackupIsInert(t *testing.T) {
	t.Parallel()
	mem, clock := vfs.NewMem(), base.NewManual(start)
	s := backedUp(t, mem, clock)
	if err := s.Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	o := Options{Clock: clock, Logger: quiet(), fs: mem, tune: small}
	inspect := o
	inspect.Inspect = true
	claim := store.ClaimRequest{Queue: turns, Routes: []string{"r"}, Max: 1, Lease: time.Minute}
	for range 2 {
		if _, err := Open(t.Context(), "backup", o); !errors.Is(err, store.ErrBackup) || !strings.Contains(err.Error(), "abide store restore backup") {
			t.Fatalf("open a backup: %v, want %v", err, store.ErrBackup)
		}
		b, err := Open(t.Context(), "backup", inspect)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Claim(t.Context(), claim); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("claim: %v, want %v", err, store.ErrReadOnly)
		}
		tx := &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: store.RecordKey{Kind: kind, ID: "a"}, Expect: store.AnyVersion}}}
		if err := b.Commit(t.Context(), tx); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("commit: %v, want %v", err, store.ErrReadOnly)
		}
		if err := b.Import(t.Context(), store.Parcel{}); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("import: %v, want %v", err, store.ErrReadOnly)
		}
		release, err := b.Exclude(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Hour)
		if err := b.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
			t.Fatal(err)
		}
		p, err := b.Export(t.Context(), "")
		if err != nil || len(p.Records) != 1 || len(p.Messages) != 2 {
			t.Errorf("the backup holds %+v, %v", p, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Restore(t.Context(), "backup", o); err != nil {
		t.Fatal(err)
	}
	if err := Restore(t.Context(), "backup", o); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("restore again: %v, want %v", err, store.ErrInvalid)
	}
	b, err := Open(t.Context(), "backup", o)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := b.Claim(t.Context(), claim)
	if err != nil || len(claims) != 1 || claims[0].Messages[0].Attempt != 2 {
		t.Errorf("claimed %+v, %v, want the second attempt", claims, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBackupThatFails makes each operation on the folder of a backup fail: the store works on,
// and no folder is left.
func TestBackupThatFails(t *testing.T) {
	t.Parallel()
	for _, linked := range []bool{true, false} {
		var n, fails atomic.Int64
		to := &destination{}
		mem := vfs.NewMem()
		s := backedUp(t, errorfs.Wrap(mem, to), base.NewManual(start))
		if err := s.db.Flush(); err != nil { // so that there is a table
			t.Fatal(err)
		}
		to.set(func(op errorfs.Op) error {
			switch {
			case op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpRemove:
				return nil // or the folder would be left, of course
			case op.Kind == errorfs.OpLink && !linked:
				return syscall.EXDEV
			case n.Add(1) == fails.Load():
				return syscall.ENOSPC
			}
			return nil
		})
		failed := 0
		for try := int64(1); ; try++ {
			n.Store(0)
			fails.Store(try)
			err := s.Backup(t.Context(), "backup")
			record := store.Record{Key: store.RecordKey{Kind: kind, ID: "later"}, Time: start}
			if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: record, Expect: store.AnyVersion}}}); err != nil {
				t.Fatalf("commit after operation %d has failed: %v", try, err)
			}
			if n.Load() < try {
				if err != nil {
					t.Fatalf("backup: %v", err)
				}
				break
			}
			if err == nil { // some errors are not of any account, such as that of a preallocation
				if err := mem.RemoveAll("backup"); err != nil {
					t.Fatal(err)
				}
				continue
			}
			failed++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("operation %d: %v, want %v", try, err, syscall.ENOSPC)
			}
			for _, name := range []string{"backup", "backup" + partialEnding} {
				if _, err := mem.Stat(name); !isNotExist(err) {
					t.Errorf("operation %d: %s is left: %v", try, name, err)
				}
			}
		}
		if failed < 20 {
			t.Errorf("%d backups have failed, want more", failed)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBackupThatIsKilled: what is left of a backup when the process is killed before any of
// its operations is refused.
func TestBackupThatIsKilled(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	to := &destination{}
	s := backedUp(t, errorfs.Wrap(mem, to), base.NewManual(start))
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	commitTo(t, s, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: kind, ID: "b"}, Time: start}}}})
	var mu sync.Mutex
	var kills []*vfs.MemFS
	to.set(func(errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		// A process that is killed leaves all that it has written.
		kills = append(kills, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}))
		return nil
	})
	if err := s.Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i, left := range kills {
		for _, dir := range []string{"backup", "backup" + partialEnding} {
			if files, err := left.List(dir); err != nil || len(files) == 0 {
				continue // there is nothing that could be taken for a store
			}
			b, err := Open(t.Context(), dir, Options{Clock: base.NewManual(start), Logger: quiet(), fs: left, tune: small, Inspect: true})
			if errors.Is(err, store.ErrIncomplete) {
				refused++
				continue
			}
			if err != nil {
				t.Fatalf("kill %d: open %s: %v", i, dir, err)
			}
			if n, err := b.Count(t.Context(), store.Query{Kind: kind}, 10); err != nil || n != 2 {
				t.Errorf("kill %d: %s has %d records, %v, want 2", i, dir, n, err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused < 20 {
		t.Errorf("%d of %d were refused, want more", refused, len(kills))
	}
}

// TestBackupsThatAreRefused: a folder that cannot be one gives an error that says why.
func TestBackupsThatAreRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	s, err := Open(t.Context(), dir, Options{Logger: quiet(), tune: small})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "left.partial"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "file"), "")
	for path, text := range map[string]string{
		"empty":       "it exists",
		"file":        "it exists",
		"store":       "inside the store",
		"store/in":    "inside the store",
		"link/in":     "inside the store",
		"left":        "left.partial exists",
		"none/backup": "none does not exist",
	} {
		err := s.Backup(t.Context(), filepath.Join(root, path))
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", path, err, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, filepath.Join(root, "late")); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that has ended: %v", err)
	}
	s.backup.Lock()
	if err := s.Backup(t.Context(), filepath.Join(root, "second")); !errors.Is(err, store.ErrInUse) {
		t.Errorf("two at once: %v, want %v", err, store.ErrInUse)
	}
	s.backup.Unlock()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), filepath.Join(root, "closed")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v, want %v", err, store.ErrClosed)
	}
	if err := Restore(t.Context(), filepath.Join(root, "nothing"), Options{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("restore what is not there: %v, want %v", err, store.ErrInvalid)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 5 {
		t.Errorf("there are %v, %v, want nothing new", entries, err)
	}
}
