package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// freshURL returns the URL of a schema that is not there, with a name that asks for
// trouble.
func freshURL(t *testing.T, options ...string) (rawURL, schema string) {
	t.Helper()
	database := testenv.SharedPostgres(t).URL()
	schema = `fresh "` + t.Name() + `"; --`
	t.Cleanup(func() {
		execute(t, database, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	})
	return withOptions(t, database, append([]string{"schema", schema}, options...)...), schema
}

// TestManyMigrateAtOnce: each migration is applied once, and everybody can go on.
func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	u, schema := freshURL(t, "connections", "3")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(t.Context(), u, Options{})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if err := s.Commit(t.Context(), put("turns", fmt.Sprint(i), "a", "order")); err != nil {
				t.Errorf("commit: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	all, err := Status(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.At.IsZero() {
			t.Errorf("migration %d was not applied", m.Number)
		}
	}
	if n := count(t, u, "migrations", schema); n != len(all) {
		t.Errorf("%d migrations are noted, want %d", n, len(all))
	}
	if n := count(t, u, "keys", schema); n != 8 {
		t.Errorf("%d keys, want 8", n)
	}
}

// count returns how many rows a table has.
func count(t *testing.T, rawURL, table, schema string) (n int) {
	t.Helper()
	err := connected(t.Context(), rawURL, func(conn *pgx.Conn, _ *config) error {
		return conn.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema, table}.Sanitize()).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// put returns a Tx with one message.
func put(queue, name, id, route string) *store.Tx {
	return &store.Tx{Put: []store.Message{{Key: store.Key{Queue: queue, Tenant: "acme", Name: name}, ID: id, Route: route, Body: []byte("body of " + id)}}}
}

// TestMigrateOff: a program that must not migrate says what is missing, and works once
// an operator has run what it prints.
func TestMigrateOff(t *testing.T) {
	t.Parallel()
	u, schema := freshURL(t, "migrate", "off")
	_, err := Open(t.Context(), u, Options{})
	if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "1 tables, 2 views, 3 search, 4 holders, 5 acknowledged") {
		t.Fatalf("open an empty schema: %v, want ErrFormat with what is missing", err)
	}
	for _, m := range Migrations(schema) {
		execute(t, testenv.SharedPostgres(t).URL(), "SET client_min_messages = warning; "+m.SQL)
	}
	s := open(t, u, Options{})
	if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
}

// TestAnotherFormat: tables that are not of this program are left alone.
func TestAnotherFormat(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a newer one":   `INSERT INTO %s.migrations (number, name, checksum) VALUES (999, 'later', 'x')`,
		"a changed one": `UPDATE %s.migrations SET checksum = 'x' WHERE number = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, schema := freshURL(t)
			if _, err := Migrate(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			execute(t, testenv.SharedPostgres(t).URL(), fmt.Sprintf(sql, pgx.Identifier{schema}.Sanitize()))
			if _, err := Open(t.Context(), u, Options{}); !errors.Is(err, store.ErrFormat) {
				t.Errorf("open: %v, want ErrFormat", err)
			}
			if _, err := Status(t.Context(), u); !errors.Is(err, store.ErrFormat) {
				t.Errorf("status: %v, want ErrFormat", err)
			}
		})
	}
}

// later notes migrations of a newer program, by number, with their oldest readers.
func later(t *testing.T, schema string, oldest map[int]int) {
	t.Helper()
	quoted := pgx.Identifier{schema}.Sanitize()
	for number, reader := range oldest {
		m := newMigration(fmt.Sprintf("%04d_later.sql", number), fmt.Sprintf(oldestReader, reader)+"CREATE TABLE {schema}.later ();", schema)
		execute(t, testenv.SharedPostgres(t).URL(), "CREATE TABLE IF NOT EXISTS "+quoted+".later (); DROP TABLE "+quoted+".later; "+m.SQL)
	}
}

// TestNewerFormat: a program works on tables of a newer format if none of the migrations that
// it does not know has an oldest reader that is newer than it.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	own := formatOf()
	for name, c := range map[string]struct {
		oldest map[int]int
		opens  bool
	}{
		"for all":                        {map[int]int{own + 1: 1}, true},
		"for this one":                   {map[int]int{own + 1: own, own + 2: own}, true},
		"for newer ones":                 {map[int]int{own + 1: own + 1}, false},
		"for newer ones since before":    {map[int]int{own + 1: own + 1, own + 2: own}, false},
		"for those from the next one on": {map[int]int{own + 1: own, own + 2: own + 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, schema := freshURL(t)
			if _, err := Migrate(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			running := open(t, u, Options{Logger: quiet})
			waits := make(chan error, 1)
			go func() {
				_, err := running.Claim(t.Context(), request(1, time.Minute))
				waits <- err
			}()
			eventually(t, "a claim waits", func() bool { return running.Waiting() == 1 })
			later(t, schema, c.oldest)
			if err := running.db.heartbeat(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want error
			if !c.opens {
				want = store.ErrFormat
			}
			if !c.opens {
				if err := <-waits; !errors.Is(err, want) {
					t.Errorf("claim of a running program: %v, want %v", err, want)
				}
			}
			if err := running.Commit(t.Context(), put("turns", "order-1", "a", "order")); !errors.Is(err, want) {
				t.Errorf("commit of a running program: %v, want %v", err, want)
			}
			if _, err := running.Stats(t.Context()); !errors.Is(err, want) {
				t.Errorf("stats of a running program: %v, want %v", err, want)
			}
			if _, err := Status(t.Context(), u); !errors.Is(err, want) {
				t.Errorf("status: %v, want %v", err, want)
			}
			for _, migrate := range []string{"on", "off"} {
				s, err := Open(t.Context(), withOptions(t, u, "migrate", migrate), Options{})
				if !errors.Is(err, want) {
					t.Errorf("open with migrate=%s: %v, want %v", migrate, err, want)
				}
				if err == nil {
					if err := s.Commit(t.Context(), put("turns", "order-2", migrate, "order")); err != nil {
						t.Errorf("commit: %v", err)
					}
					_ = s.Close()
				}
			}
		})
	}
}

// TestOptions: what cannot be meant is refused, without a word about the password.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		"connections=2", "connections=x", "notify=maybe", "migrate=later", "pooler=session", "schema=" + strings.Repeat("x", 64), "sslmode=perhaps", "unknown=1",
	} {
		_, err := store.Open(t.Context(), "postgres://user:secret@127.0.0.1:1/x?"+options)
		if !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want ErrInvalid", options, err)
		}
	}
}
