package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

func record(id string, size int) store.PutRecord {
	return store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "order", ID: id}, Body: make([]byte, size)}, Expect: store.AnyVersion}
}

func put(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record(id, 10)}}); err != nil {
		t.Fatal(err)
	}
}

// TestFull: a commit for which there is no room changes nothing, its neighbours in the
// group succeed, and commits succeed again when there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), newPath(t), Options{Logger: quiet(), maxPages: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is not what the test is about
	put(t, s, "before")
	big := &store.Tx{
		PutRecords: []store.PutRecord{record("big", 1<<20)},
		Put:        []store.Message{{Key: store.Key{Queue: "q", Name: "k"}, ID: "m", Route: "r"}},
	}
	for range 3 {
		if err := s.Commit(t.Context(), big); !errors.Is(err, store.ErrFull) {
			t.Fatalf("commit without room: %v, want %v", err, store.ErrFull)
		}
		if _, err := s.Get(t.Context(), store.RecordKey{Kind: "order", ID: "big"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the record is there: %v", err)
		}
		put(t, s, "small")
	}
	if m, err := s.Pending(t.Context(), store.Key{Queue: "q", Name: "k"}, 0); len(m) > 0 || err != nil {
		t.Errorf("the message is there: %v", err)
	}
	verifies(t, s)
	s.writer.mu.Lock()
	err = s.writer.once("PRAGMA max_page_count = 100000")
	s.writer.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), big); err != nil {
		t.Errorf("commit when there is room: %v", err)
	}
}

// TestFullWhileImporting: an import for which there is no room changes nothing either.
func TestFullWhileImporting(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), newPath(t), Options{Logger: quiet(), maxPages: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is not what the test is about
	p := store.Parcel{Records: []store.Record{record("a", 10).Record, record("b", 1<<20).Record}}
	p.Records[0].Version, p.Records[1].Version = 1, 1
	if err := s.Import(t.Context(), p); !errors.Is(err, store.ErrFull) {
		t.Errorf("import without room: %v, want %v", err, store.ErrFull)
	}
	if n, err := s.Count(t.Context(), store.Query{Kind: "order"}, 10); n != 0 || err != nil {
		t.Errorf("%d records are there: %v", n, err)
	}
}

// TestSyncError: after a commit that could not be synced, nobody knows what is on disk.
func TestSyncError(t *testing.T) {
	t.Parallel()
	for _, code := range []sqlite.ResultCode{sqlite.ResultIOErrFsync, sqlite.ResultIOErrWrite, sqlite.ResultIOErrDirFsync} {
		s := openAt(t, newPath(t))
		waits := make(chan error, 2)
		go func() {
			_, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second, Wait: time.Hour})
			waits <- err
		}()
		go func() {
			_, err := s.Await(t.Context(), store.RecordKey{Kind: "order", ID: "a"}, 0)
			waits <- err
		}()
		for s.Waiting() == 0 {
			runtime.Gosched()
		}
		if err := s.broken("commit", code.ToError(), true); !errors.Is(err, store.ErrFailed) {
			t.Errorf("%v: %v, want %v", code, err, store.ErrFailed)
		}
		calls := map[string]func() error{
			"commit": func() error { return s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record("a", 1)}}) },
			"get":    func() error { _, err := s.Get(t.Context(), store.RecordKey{Kind: "order", ID: "a"}); return err },
			"claim": func() error {
				_, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second})
				return err
			},
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, store.ErrFailed) {
				t.Errorf("%v: %s afterwards: %v, want %v", code, name, err, store.ErrFailed)
			}
		}
		for range 2 {
			if err := <-waits; !errors.Is(err, store.ErrFailed) {
				t.Errorf("%v: a call that waited: %v, want %v", code, err, store.ErrFailed)
			}
		}
	}
}

// TestNotOurs: what is not a store of this version is not opened, and not touched.
func TestNotOurs(t *testing.T) {
	t.Parallel()
	sql := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			run(t, path, statements...)
		}
	}
	ours := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			s, err := Open(t.Context(), path, Options{Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, "a")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			run(t, path, statements...)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
		text string
	}{
		"text":                     {func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database", 1000)) }, store.ErrFormat, "not an SQLite database"},
		"another program's":        {sql("CREATE TABLE customers (id)"), store.ErrFormat, "something else than Abide"},
		"another application's ID": {sql("PRAGMA application_id = 7", "CREATE TABLE meta (name, value)"), store.ErrFormat, "application ID 0x7"},
		"a newer format":           {ours("UPDATE meta SET value = 3 WHERE name = 'format'"), store.ErrFormat, "format 3"},
		"one for newer programs":   {ours("UPDATE meta SET value = 4 WHERE name = 'format'", "INSERT INTO meta VALUES ('oldest reader', 3)"), store.ErrFormat, "oldest reader is a program of format 3"},
		"no format":                {ours("DELETE FROM meta"), store.ErrFormat, "format 0"},
		"another's timer queue":    {sql("CREATE TABLE timer_queue (id, wakes)", "CREATE TABLE orchestrator_queue (id)"), store.ErrFormat, "something else than Abide"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			c.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), path, Options{Logger: quiet()})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("open: %v, want %v with %q", err, c.want, c.text)
			}
			if after, err := os.ReadFile(path); string(after) != string(before) || err != nil {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// TestNewerFormat: a program works on a file of a newer format if it is not older than its
// oldest reader, and stops if another process makes it one on which it must not work.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	run(t, path, "UPDATE meta SET value = 4 WHERE name = 'format'", "INSERT INTO meta VALUES ('oldest reader', 2)")
	s.checkFormat()
	put(t, s, "a")
	put(t, openAt(t, path), "b")
	if got, want := table(t, path, "SELECT value FROM meta WHERE name = 'format'"), "4\n"; got != want {
		t.Errorf("the format is %s, want %s", got, want)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "nothing", Routes: []string{"r"}, Max: 1, Lease: time.Minute, Wait: time.Minute})
		waits <- err
	}()
	run(t, path, "UPDATE meta SET value = 3 WHERE name = 'oldest reader'")
	if err := <-waits; !errors.Is(err, store.ErrFormat) {
		t.Errorf("claim while the format was raised: %v, want ErrFormat", err)
	}
	if _, err := s.Stats(t.Context()); !errors.Is(err, store.ErrFormat) {
		t.Errorf("stats: %v, want ErrFormat", err)
	}
}

// TestDamaged: a file with a damaged page is detected by a call that reads the page.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	for i := range 50 {
		put(t, s, fmt.Sprint(i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(b []byte) []byte
	}{
		{"the pages of records are noise", func(b []byte) []byte {
			for i := 4096; i < len(b); i++ {
				b[i] = byte(i * 7)
			}
			return b
		}},
		{"the file is cut", func(b []byte) []byte { return b[:8192] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoiled := newPath(t)
			write(t, spoiled, string(c.spoil([]byte(string(data)))))
			s, err := Open(t.Context(), spoiled, Options{Logger: quiet()})
			if err == nil {
				_, err = s.List(t.Context(), store.Query{Kind: "order"})
				_ = s.Close()
			}
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v, want %v", err, store.ErrCorrupt)
			}
		})
	}
}

// TestPlaces: where there can be no file, the error says why.
func TestPlaces(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	write(t, file, "")
	for path, want := range map[string]string{
		filepath.Join(folder, "missing", "abide.db"): "is not there",
		folder:                          "it is a folder",
		filepath.Join(file, "abide.db"): "not a directory",
	} {
		if s, err := Open(t.Context(), path, Options{Logger: quiet()}); err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestURL(t *testing.T) {
	t.Chdir(t.TempDir())
	folder := t.TempDir()
	for _, url := range []string{"sqlite://" + folder + "/a.db", "sqlite://b.db", "sqlite:c.db?cache=8"} {
		s, err := store.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{folder + "/a.db", "b.db", "c.db"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, url := range []string{"sqlite://", "sqlite:///", "sqlite://a.db?cache=none", "sqlite://a.db?cache=0", "sqlite://a.db?fast=1"} {
		if _, err := store.Open(t.Context(), url); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want %v", url, err, store.ErrInvalid)
		}
	}
}

// TestMade: many make the same file at once, and all have it.
func TestMade(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), path, Options{Logger: quiet()})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record(fmt.Sprint(i), 1)}}); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, err := openAt(t, path).Count(t.Context(), store.Query{Kind: "order"}, 10); n != 6 || err != nil {
		t.Errorf("%d records are there, want 6: %v", n, err)
	}
}

// TestOpenErrors: what the engine says when it opens a file is told apart.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	s := newStore("abide.db", Options{})
	for code, want := range map[sqlite.ResultCode]error{
		sqlite.ResultReadOnly: fs.ErrPermission, sqlite.ResultReadOnlyDirectory: fs.ErrPermission, sqlite.ResultNotADB: store.ErrFormat,
		sqlite.ResultCorrupt: store.ErrCorrupt, sqlite.ResultFull: store.ErrFull,
	} {
		if err := s.openError(code.ToError()); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", code, err, want)
		}
	}
}

// TestLogBeginsAgain: a log that has grown is written to the database, and is short again.
func TestLogBeginsAgain(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record("big", 4<<20)}}); err != nil {
		t.Fatal(err)
	}
	if n := s.logBytes(); n < 4<<20 {
		t.Fatalf("the log has %d bytes, and should have more", n)
	}
	reader, err := openReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close() //nolint:errcheck // it is not what the test is about
	if err := reader.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.number("SELECT count(*) FROM records"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a")
	s.shorten()
	if n := s.logBytes(); n == 0 {
		t.Error("the log begins again although a reader uses it")
	}
	put(t, s, "b")
	if err := reader.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	s.shorten()
	if n := s.logBytes(); n != 0 {
		t.Errorf("the log still has %d bytes", n)
	}
	put(t, s, "c")
	verifies(t, s)
}

// TestLockedByOthers: a commit waits for a lock of another connection, as long as its caller
// does, and readers do not wait.
func TestLockedByOthers(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	put(t, s, "a")
	other, err := openConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close() //nolint:errcheck // it is not what the test is about
	if err := other.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{record("b", 1)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit while the file is locked: %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := s.Get(t.Context(), store.RecordKey{Kind: "order", ID: "a"}); err != nil {
		t.Errorf("get while the file is locked: %v", err)
	}
	if claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second}); len(claims) > 0 || err != nil {
		t.Errorf("a claim that finds nothing while the file is locked: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record("c", 1)}}) }()
	select {
	case err := <-done:
		t.Errorf("commit while the file is locked: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := other.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("commit when the file is unlocked: %v", err)
	}
}

// TestReadersDoNotWait: a reader sees what was committed last while a transaction is
// under way, in this process too.
func TestReadersDoNotWait(t *testing.T) {
	t.Parallel()
	s := openAt(t, newPath(t))
	put(t, s, "a")
	err := s.transact(t.Context(), "test", true, func(w *writer) (bool, error) {
		if err := w.insertRecord(&store.Record{Key: store.RecordKey{Kind: "order", ID: "b"}, Version: 1, Body: []byte{}}); err != nil {
			return false, err
		}
		page, err := s.List(t.Context(), store.Query{Kind: "order"})
		if len(page.Records) != 1 {
			t.Errorf("%d records are seen, want 1", len(page.Records))
		}
		if _, err := s.Stats(t.Context()); err != nil {
			t.Error(err)
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context(), store.Query{Kind: "order"}, 10); n != 2 || err != nil {
		t.Errorf("%d records, want 2: %v", n, err)
	}
}

// TestSynced: a commit is synced, also after a claim, which is not.
func TestSynced(t *testing.T) {
	t.Parallel()
	s := openAt(t, newPath(t))
	level := func(want int64) {
		t.Helper()
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		if got, err := s.writer.number("PRAGMA synchronous"); got != want || err != nil {
			t.Errorf("the level is %d, want %d: %v", got, want, err)
		}
	}
	const normal, full = 1, 2
	level(full)
	for range 2 {
		key := store.Key{Queue: "q", Name: "k"}
		if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "m", Route: "r"}}}); err != nil {
			t.Fatal(err)
		}
		level(full)
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Hour})
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		level(normal)
		if err := s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}}); err != nil {
			t.Fatal(err)
		}
		level(full)
	}
}

// TestTimeDoesNotGoBack: a process whose clock is behind continues from the time that others
// have seen.
func TestTimeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	ahead, behind := base.NewManual(begin.Add(5*time.Second)), base.NewManual(begin)
	open := func(c base.Clock) *Store {
		s, err := Open(t.Context(), path, Options{Clock: c, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s, other := open(behind), open(ahead)
	now := func(s *Store) time.Time {
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.Now
	}
	if got := now(s); !got.Equal(begin) {
		t.Fatalf("the time is %v, want %v", got, begin)
	}
	put(t, other, "a")
	put(t, s, "b")
	if got := now(s); got.Before(ahead.Now()) {
		t.Errorf("the time is %v after another process has seen %v", got, ahead.Now())
	}
	ahead.Advance(3 * time.Second)
	put(t, other, "c")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got := now(open(behind)); got.Before(ahead.Now()) {
		t.Errorf("the time is %v when the file is opened after another process has seen %v", got, ahead.Now())
	}
}

// run runs statements on a file, as anybody can with SQLite.
func run(t *testing.T, path string, statements ...string) {
	t.Helper()
	c, err := openConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if err := c.once(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
