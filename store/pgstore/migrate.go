package pgstore

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

//go:embed migrations/*.sql
var files embed.FS

// Migration is a step from one shape of the tables to the next.
type Migration struct {
	Number int
	Name   string

	// OldestReader is the least format whose programs may work on the tables when they have
	// this migration; the format of a program, and of tables, is the number of their last
	// migration. It is Number unless the file begins with "-- oldest reader: n".
	OldestReader int

	// SQL makes it, for one schema, with all that belongs to it: it can be given to psql.
	SQL string

	checksum string
	body     string // without the note that it was applied
}

// Applied is a migration and when the database got it; the zero time if it has not.
type Applied struct {
	Migration
	At time.Time
}

// Migrations returns the steps to the tables of this program, in order, for a schema.
func Migrations(schema string) []Migration {
	found, err := files.ReadDir("migrations") // in the order of their names
	if err != nil {
		panic(err) // they are part of the program
	}
	all := make([]Migration, 0, len(found))
	for _, f := range found {
		text, err := files.ReadFile(path.Join("migrations", f.Name()))
		if err != nil {
			panic(err)
		}
		all = append(all, newMigration(f.Name(), string(text), schema))
	}
	return all
}

// oldestReader is how the file of a migration begins that programs before it may work with.
const oldestReader = "-- oldest reader: %d\n"

func newMigration(file, text, schema string) Migration {
	digits, name, _ := strings.Cut(strings.TrimSuffix(file, ".sql"), "_")
	number, err := strconv.Atoi(digits)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(text))
	m := Migration{Number: number, Name: name, OldestReader: number, checksum: hex.EncodeToString(sum[:])}
	if _, err := fmt.Sscanf(text, oldestReader, &m.OldestReader); err != nil {
		m.OldestReader = number
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	m.body = strings.ReplaceAll(text, "{schema}", quoted)
	var b strings.Builder
	fmt.Fprintf(&b, "-- Migration %d: %s.\nBEGIN;\nSELECT pg_advisory_xact_lock(%d);\n", m.Number, m.Name, lockNumber(schema))
	if number == 1 {
		b.WriteString(beginning(quoted))
	}
	b.WriteString("\n" + m.body + "\n" + m.note(quoted) + "COMMIT;\n")
	m.SQL = b.String()
	return m
}

// beginning makes the schema, and the table of migrations in it.
func beginning(quoted string) string {
	return "CREATE SCHEMA IF NOT EXISTS " + quoted + ";\n" + `CREATE TABLE IF NOT EXISTS ` + quoted + `.migrations (
    number   int4        PRIMARY KEY,
    name     text        NOT NULL,
    checksum text        NOT NULL,
    applied  timestamptz NOT NULL DEFAULT now()
);
`
}

// note is the statement that notes that the migration was applied. The table has had no
// column for the oldest reader from the beginning; none means the migration itself.
func (m *Migration) note(quoted string) string {
	if m.OldestReader != m.Number {
		return fmt.Sprintf(`ALTER TABLE %[1]s.migrations ADD COLUMN IF NOT EXISTS oldest_reader int4;
INSERT INTO %[1]s.migrations (number, name, checksum, oldest_reader) VALUES (%[2]d, '%[3]s', '%[4]s', %[5]d);
`, quoted, m.Number, m.Name, m.checksum, m.OldestReader)
	}
	return fmt.Sprintf("INSERT INTO %s.migrations (number, name, checksum) VALUES (%d, '%s', '%s');\n", quoted, m.Number, m.Name, m.checksum)
}

// lockNumber is the advisory lock under which a schema is migrated.
func lockNumber(schema string) int64 {
	sum := sha256.Sum256([]byte("abide migrations of " + schema))
	n := int64(0)
	for _, b := range sum[:7] { // so that it is positive
		n = n<<8 | int64(b)
	}
	return n
}

// Migrate brings the tables that a URL names up to date, and returns the migrations that
// it applied. For a URL with pooler=transaction it also makes the functions that its
// programs call. Any number of processes may do so at once.
func Migrate(ctx context.Context, rawURL string) (applied []Migration, err error) {
	err = connected(ctx, rawURL, func(conn *pgx.Conn, c *config) error {
		if applied, err = migrate(ctx, conn, c.schema); err != nil || !c.pooler {
			return err
		}
		known, err := knownSettings(ctx, conn)
		if err != nil {
			return failed("read settings", err)
		}
		list := functionsOf(c.quoted(), newStatements(c.quoted(), false), pooledSettings(known)...)
		return failed("create functions", createFunctions(ctx, conn, c.schema, list))
	})
	return applied, err
}

// Status returns the migrations of this program, and which of them the tables that a URL
// names have. It returns [store.ErrFormat] as Open does if they are not of this program.
func Status(ctx context.Context, rawURL string) (all []Applied, err error) {
	err = connected(ctx, rawURL, func(conn *pgx.Conn, c *config) error {
		have, err := applied(ctx, conn, c.schema)
		if err != nil {
			return err
		}
		for _, m := range Migrations(c.schema) {
			all = append(all, Applied{m, have[m.Number].at})
		}
		return check(have, c.schema)
	})
	return all, err
}

// connected calls f with a connection to the database that a URL names.
func connected(ctx context.Context, rawURL string, f func(conn *pgx.Conn, c *config) error) error {
	c, err := parse(rawURL)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, c.conn)
	if err != nil {
		return unreachable(c, err)
	}
	return errors.Join(f(conn, c), conn.Close(ctx))
}

// stored is a row of the table of migrations.
type stored struct {
	checksum string
	at       time.Time
	oldest   int // the oldest reader
}

// formatOf returns the format of this program.
func formatOf() int {
	all := Migrations("")
	return all[len(all)-1].Number
}

// oldestOf is the oldest reader of a migration m, whether the table has a column for it or
// not.
const oldestOf = `coalesce((to_jsonb(m) ->> 'oldest_reader')::int4, m.number)`

// applied returns the migrations that the database has.
func applied(ctx context.Context, conn queryer, schema string) (map[int]stored, error) {
	quoted := pgx.Identifier{schema}.Sanitize()
	have := map[int]stored{}
	var there bool
	// The catalogue is read as a table: what is looked up in it otherwise may be as it was
	// before we waited for the migration of another process.
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations')`, schema).Scan(&there)
	if err != nil {
		return nil, failed("read migrations", err)
	}
	if !there {
		return have, nil
	}
	found, err := conn.Query(ctx, `SELECT m.number, m.checksum, m.applied, `+oldestOf+` FROM `+quoted+`.migrations m`)
	if err != nil {
		return nil, failed("read migrations", err)
	}
	var number int
	var row stored
	_, err = pgx.ForEachRow(found, []any{&number, &row.checksum, &row.at, &row.oldest}, func() error {
		have[number] = row
		return nil
	})
	return have, failed("read migrations", err)
}

// queryer is a connection, or a transaction of it.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// check reports whether this program may work on what the database has: the migrations that
// it knows are those that it would have made, and it is not older than the oldest reader of
// the others.
func check(have map[int]stored, schema string) error {
	known := map[int]bool{}
	own := 0
	for _, m := range Migrations(schema) {
		known[m.Number] = true
		own = max(own, m.Number)
		if row, ok := have[m.Number]; ok && row.checksum != m.checksum {
			return fmt.Errorf("pgstore: schema %s: migration %d, %s, is not the one that this program has: %w", schema, m.Number, m.Name, store.ErrFormat)
		}
	}
	format, oldest := 0, 0
	for number, row := range have {
		format = max(format, number)
		if !known[number] {
			oldest = max(oldest, row.oldest)
		}
	}
	if err := store.CheckFormat(format, oldest, own); err != nil {
		return fmt.Errorf("pgstore: schema %s: %w", schema, err)
	}
	return nil
}

// missing returns the migrations that the database does not have.
func missing(have map[int]stored, schema string) (list []Migration, err error) {
	if err := check(have, schema); err != nil {
		return nil, err
	}
	for _, m := range Migrations(schema) {
		if _, ok := have[m.Number]; !ok {
			list = append(list, m)
		}
	}
	return list, nil
}

// upToDate returns an error that names the migrations that are missing.
func upToDate(ctx context.Context, conn *pgx.Conn, schema string) error {
	have, err := applied(ctx, conn, schema)
	if err != nil {
		return err
	}
	lacking, err := missing(have, schema)
	if err != nil || len(lacking) == 0 {
		return err
	}
	var names []string
	for _, m := range lacking {
		names = append(names, fmt.Sprintf("%d %s", m.Number, m.Name))
	}
	return fmt.Errorf("pgstore: schema %s lacks the migrations %s; run abide migrate up, or open it without migrate=off: %w",
		schema, strings.Join(names, ", "), store.ErrFormat)
}

// migrate applies what is missing, each migration in a transaction of its own, and returns
// it.
func migrate(ctx context.Context, conn *pgx.Conn, schema string) (done []Migration, err error) {
	have, err := applied(ctx, conn, schema)
	if err != nil {
		return nil, err
	}
	for {
		lacking, err := missing(have, schema)
		if err != nil || len(lacking) == 0 {
			return done, err
		}
		next, err := migrateNext(ctx, conn, schema)
		if err != nil {
			return done, err
		}
		if next != nil {
			done = append(done, *next)
		}
		if have, err = applied(ctx, conn, schema); err != nil {
			return done, err
		}
	}
}

// migrateNext applies the first migration that is missing and returns it; nil if others
// were faster.
func migrateNext(ctx context.Context, conn *pgx.Conn, schema string) (next *Migration, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockNumber(schema)); err != nil {
			return failed("lock migrations", err)
		}
		have, err := applied(ctx, tx, schema)
		if err != nil {
			return err
		}
		lacking, err := missing(have, schema)
		if err != nil || len(lacking) == 0 {
			return err
		}
		next = &lacking[0]
		text := next.body + next.note(pgx.Identifier{schema}.Sanitize())
		if next.Number == 1 {
			if text, err = first(ctx, tx, schema, text); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("pgstore: migration %d, %s, of schema %s: %w", next.Number, next.Name, schema, err)
		}
		return nil
	})
	return next, err
}

// first returns the text of the first migration with what comes before it. A schema that is
// there already is left alone: to make one needs a right that to use it does not.
func first(ctx context.Context, tx pgx.Tx, schema, text string) (string, error) {
	var there bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`, schema).Scan(&there) // the catalogue's word for schema
	if err != nil {
		return "", failed("look for the schema", err)
	}
	begin := beginning(pgx.Identifier{schema}.Sanitize())
	if there {
		_, begin, _ = strings.Cut(begin, "\n")
	}
	return begin + text, nil
}
