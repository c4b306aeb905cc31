package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

func openWith(t *testing.T, path string, clock base.Clock, log *slog.Logger) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Clock: clock, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// table returns what a query finds, a line for each row.
func table(t *testing.T, path, query string) string {
	t.Helper()
	c, err := openReader(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = c.each(query, func(s *sqlite.Stmt) error {
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
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// jobs is a design with one table, of which each row becomes a message.
var jobs = &Foreign{
	Recognize: func(columns map[string][]string) bool { return len(columns["jobs"]) == 3 },
	Read: func(t ForeignTables, now time.Time) (messages []store.Message, err error) {
		err = t.Each("SELECT name, body, at FROM "+ForeignPrefix+"jobs ORDER BY name", func(values []any) error {
			body, _ := values[1].([]byte)
			at, _ := values[2].(int64)
			messages = append(messages, store.Message{
				Key: store.Key{Queue: "jobs", Name: values[0].(string)}, ID: "job", Body: body, VisibleAt: now.Add(time.Duration(at) * time.Second),
			})
			return nil
		})
		return messages, err
	},
}

// makeJobs makes a database of that design.
func makeJobs(t *testing.T, path string, n, size int) {
	t.Helper()
	run(t, path, "CREATE TABLE jobs (name TEXT, body BLOB, at INTEGER)")
	for i := range n {
		run(t, path, fmt.Sprintf("INSERT INTO jobs VALUES ('job-%d', zeroblob(%d), %d)", i, size, i))
	}
}

// TestConvert: each message is put once, the tables are kept, and nothing is converted twice.
func TestConvert(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeJobs(t, path, 3, 100)
	clock := base.NewManual(begin)
	o := Options{Clock: clock, Logger: quiet()}
	if _, err := Open(t.Context(), path, o); !errors.Is(err, store.ErrFormat) {
		t.Errorf("open: %v", err)
	}
	for _, dryRun := range []bool{true, false} {
		if tables, err := Convert(t.Context(), path, o, jobs, dryRun); err != nil || len(tables) != 1 || tables[0] != "jobs" {
			t.Fatalf("convert: %v, %v", tables, err)
		}
	}
	if _, err := Convert(t.Context(), path, o, jobs, false); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("converted again: %v", err)
	}
	s := openWith(t, path, clock, quiet())
	for i := range 3 {
		got, err := s.Pending(t.Context(), store.Key{Queue: "jobs", Name: fmt.Sprint("job-", i)}, 0)
		if err != nil || len(got) != 1 || !got[0].VisibleAt.Equal(begin.Add(time.Duration(i)*time.Second)) || !bytes.Equal(got[0].Body, make([]byte, 100)) {
			t.Errorf("job %d: %v, %v", i, got, err)
		}
	}
	verifies(t, s)
	if got := table(t, path, "SELECT count(*) FROM legacy_jobs"); got != "3\n" {
		t.Errorf("%s rows are kept", got)
	}
}

// TestConvertHalfway: a conversion that does not come to its end changes nothing.
func TestConvertHalfway(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeJobs(t, path, 40, 20_000) // there is room for the tables, and not for the messages
	c, err := openConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := c.number("PRAGMA page_count")
	if err := errors.Join(err, c.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(t.Context(), path, Options{Logger: quiet(), maxPages: int(pages) + 60}, jobs, false); !errors.Is(err, store.ErrFull) {
		t.Fatalf("convert without room: %v, want %v", err, store.ErrFull)
	}
	for query, want := range map[string]string{
		"SELECT count(*) FROM jobs":                                             "40\n",
		"SELECT count(*) FROM sqlite_master WHERE name LIKE 'legacy%'":          "0\n",
		"SELECT count(*) FROM sqlite_master WHERE name IN ('keys', 'messages')": "0\n",
		"PRAGMA application_id":                                                 "0\n",
	} {
		if got := table(t, path, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if _, err := Convert(t.Context(), path, Options{Logger: quiet()}, jobs, false); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	if m, err := s.Pending(t.Context(), store.Key{Queue: "jobs", Name: "job-39"}, 0); len(m) != 1 || err != nil {
		t.Errorf("%d messages for the last one, want 1: %v", len(m), err)
	}
	verifies(t, s)
}
