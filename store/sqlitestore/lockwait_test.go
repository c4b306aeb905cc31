package sqlitestore

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/store"
)

// lines is where a log goes, line by line.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestALongWaitForTheLockIsLogged: once when it gets long, and once when it is over.
func TestALongWaitForTheLockIsLogged(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	log := make(lines, 10)
	s, err := Open(t.Context(), path, Options{Logger: slog.New(slog.NewJSONHandler(log, nil)), lockWarn: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it is not what the test is about
	other, err := openConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close() //nolint:errcheck // it is not what the test is about
	if err := other.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{record("a", 0)}}) }()
	want := func(message string) {
		t.Helper()
		if line := <-log; !strings.Contains(line, message) || !strings.Contains(line, path) {
			t.Errorf("logged %s, want %q", line, message)
		}
	}
	want("write lock held by another process, waiting")
	if err := other.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want("wait for the write lock ended")
	if len(log) > 0 {
		t.Errorf("logged too: %s", <-log)
	}
}
