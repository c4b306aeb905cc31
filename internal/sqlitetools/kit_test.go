package sqlitetools

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/sqlitestore"
)

var begin = time.UnixMilli(1_800_000_000_000)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "abide.db") }

// openStore converts the file if it is of an older design, opens it, and closes it with the
// test.
func openStore(t *testing.T, path string, clock base.Clock, log *slog.Logger) *sqlitestore.Store {
	t.Helper()
	o := sqlitestore.Options{Clock: clock, Logger: quiet()}
	if _, err := Convert(t.Context(), path, o, false); err != nil && !errors.Is(err, store.ErrInvalid) && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	o.Logger = log
	s, err := sqlitestore.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run runs statements on a file, as anybody can with SQLite.
func run(t *testing.T, path string, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		table(t, path, statement)
	}
}

// table returns what a query finds, a line for each row.
func table(t *testing.T, path, query string) string {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it is not what the test is about
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer s.Finalize() //nolint:errcheck // the step has failed if it does
	var b strings.Builder
	for {
		more, err := s.Step()
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if !more {
			return b.String()
		}
		for i := range s.ColumnCount() {
			if i > 0 {
				b.WriteByte('|')
			}
			if s.ColumnType(i) == sqlite.TypeNull {
				b.WriteString("-")
			} else {
				b.WriteString(s.ColumnText(i))
			}
		}
		b.WriteByte('\n')
	}
}

func verifies(t *testing.T, s *sqlitestore.Store) {
	t.Helper()
	if err := s.Verify(t.Context(), func(problem string) { t.Errorf("verify: %s", problem) }); err != nil {
		t.Fatal(err)
	}
}
