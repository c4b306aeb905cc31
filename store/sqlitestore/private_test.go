//go:build unix

package sqlitestore

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
)

// TestNewFileIsPrivate: only the owner can read a new database and the files beside it; of
// an existing one that others can read there is a warning, and it stays as it is.
func TestNewFileIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "abide.db")
	open := func() (*Store, string) {
		t.Helper()
		var log strings.Builder
		s, err := Open(t.Context(), path, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		key := store.Key{Queue: "q", Tenant: "t", Name: "k"}
		if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "a", Route: "r"}}}); err != nil {
			t.Fatal(err)
		}
		return s, log.String()
	}
	s, log := open()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 3 {
		t.Fatalf("files: %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if strings.Contains(log, "accessible") {
		t.Errorf("a new store is warned of: %s", log)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	s, log = open()
	if !strings.Contains(log, "store is accessible to other users") || !strings.Contains(log, "mode=0644") {
		t.Errorf("log: %s", log)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
