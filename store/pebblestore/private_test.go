//go:build unix

package pebblestore

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
)

// modes returns the permissions of a directory and of all that is in it.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found[path] = info.Mode().Perm()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestNewStoreIsPrivate: only the owner of a new store can enter its directory and read
// its files, while it is open and after it was closed.
func TestNewStoreIsPrivate(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	dir := filepath.Join(t.TempDir(), "new", "store")
	s, err := Open(t.Context(), dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), tune: small})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Queue: "q", Tenant: "t", Name: "k"}
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "a", Route: "r"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: store.MaxLease}); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(filepath.Dir(dir), "backup")
	if err := s.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	for path, mode := range modes(t, backup) {
		if mode&0o077 != 0 {
			t.Errorf("%s, of a backup: %04o", path, mode)
		}
	}
	for _, when := range []string{"open", "closed"} {
		if when == "closed" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for path, mode := range modes(t, dir) {
			if mode&0o077 != 0 {
				t.Errorf("%s, while the store is %s: %04o", path, when, mode)
			}
		}
	}
	if strings.Contains(log.String(), "accessible") {
		t.Errorf("a new store is warned of: %s", log.String())
	}
}

// TestSharedDirectoryIsWarnedOf: a directory that exists keeps its permissions.
func TestSharedDirectoryIsWarnedOf(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), tune: small})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "store is accessible to other users") || !strings.Contains(log.String(), "mode=0755") {
		t.Errorf("log: %s", log.String())
	}
}
