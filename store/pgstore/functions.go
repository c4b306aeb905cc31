package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/base"
)

// Poolers that give each transaction another connection are of two kinds. Some keep prepared
// statements (PgBouncer from 1.21 on, with max_prepared_statements): they give each a name of their
// own, by which keepsPrepared tells them from the others, and prepare it on each connection that it
// is executed on. Then nothing is different but that settings are made in each transaction.
//
// A pooler that knows no prepared statements leaves
// a client no way to keep a plan: each use of a statement would be parsed and planned, which takes
// three to four times the server's CPU of its execution. But a connection of the server keeps the
// plans of the SQL in PL/pgSQL functions, whichever client has it. So the statements of commits and
// claims are functions in the store's schema, and what is sent is
//
//	SELECT * FROM schema.loadkeys_0123456789abcdef($1)
//
// The name has a digest of the statement's text and of the format of the tables, so that programs
// of different versions have functions of their own, and a function is never replaced. Those of
// earlier versions stay where they are: nothing says which processes use them, and one costs a row
// of the catalogue.
//
// A plan depends on settings, and is kept for all who use the connection. So each transaction that
// calls the functions makes its settings first (also by a function), and transactions of users
// (WithTx), whose settings are their own, never call them: see plainSender.

// called are the templates that become functions: those of commits, claims, and what each turn
// reads. The others are seldom sent.
var called = []string{
	loadKeys, lockKeys, loadRecords, lockRecords, loadMessages, readClock,
	insertKeys, updateKeys, refreshKeys, deleteKeys,
	wipeMessages, wipeEntries, raiseMessages, removeMessages, countMessages, moveMessages, putMessages, trimEntries, appendEntries,
	insertRecords, updateRecords, deleteRecords, upsertRecords, addTally, foldTally,
	pickKeys, pickLimited, nextDue, findExpired, readRecord, readEntries, readPending, seeProcess, readPeers,
}

// keepsPrepared reports whether a connection leads through a pooler that keeps prepared statements.
func keepsPrepared(ctx context.Context, conn *pgx.Conn) (kept bool, err error) {
	name := "abide_" + base.NewUUID(base.System{}.Now())
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := conn.PgConn().Prepare(ctx, name, "SELECT 1", nil); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_prepared_statements WHERE name = $1)`, name).Scan(&kept); err != nil {
			return err
		}
		return conn.PgConn().Deallocate(ctx, name)
	})
	return kept, err
}

// function is a statement as a function of the server.
type function struct {
	schema string // quoted
	name   string
	sql    string // the statement
}

// functionsOf returns the functions of a store: its statements, and its settings.
func functionsOf(quoted string, text *statements, settings ...string) (list []function) {
	names := make(map[string]string, len(templates))
	for name, template := range templates {
		names[template] = name
	}
	for _, template := range called {
		list = append(list, newFunction(quoted, names[template], text.sql(template)))
	}
	for _, sql := range settings {
		list = append(list, newFunction(quoted, "settings", sql))
	}
	return list
}

func newFunction(quoted, name, sql string) function {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d %s", formatOf(), sql)))
	return function{schema: quoted, name: fmt.Sprintf("%s_%x", strings.ToLower(name), sum[:8]), sql: sql}
}

// parameter is how a statement names one.
var parameter = regexp.MustCompile(`\$(\d+)`)

// call returns the statement that calls the function.
func (f *function) call() string {
	most := 0
	for _, found := range parameter.FindAllStringSubmatch(f.sql, -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			panic(err) // they are digits, and few
		}
		most = max(most, n)
	}
	list := make([]string, most)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", i+1)
	}
	return fmt.Sprintf("SELECT * FROM %s.%s(%s)", f.schema, f.name, strings.Join(list, ", "))
}

// define returns the statement that makes the function, with types that the server has described.
func (f *function) define(parameters, columns []string) string {
	returns, body := "void", f.sql
	switch {
	case strings.HasPrefix(f.sql, setConfig):
		body = "PERFORM " + strings.TrimPrefix(f.sql, "SELECT ")
	case len(columns) > 0:
		list := make([]string, len(columns))
		for i, c := range columns {
			list[i] = fmt.Sprintf("c%d %s", i+1, c)
		}
		returns, body = "TABLE ("+strings.Join(list, ", ")+")", "RETURN QUERY "+f.sql
	}
	return fmt.Sprintf("CREATE FUNCTION %s.%s(%s) RETURNS %s LANGUAGE plpgsql AS $abide$\n#variable_conflict use_column\nBEGIN\n%s\n;\nEND $abide$",
		f.schema, f.name, strings.Join(parameters, ", "), returns, body)
}

// create makes the function.
func (f *function) create(ctx context.Context, tx pgx.Tx) error {
	described, err := tx.Conn().PgConn().Prepare(ctx, "", f.sql, nil)
	if err != nil {
		return fmt.Errorf("describe %s: %w", f.name, err)
	}
	columns := make([]uint32, len(described.Fields))
	for i := range described.Fields {
		columns[i] = described.Fields[i].DataTypeOID
	}
	parameterTypes, err := typeNames(ctx, tx, described.ParamOIDs)
	if err != nil {
		return err
	}
	columnTypes, err := typeNames(ctx, tx, columns)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, f.define(parameterTypes, columnTypes), pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create function %s: %w", f.name, err)
	}
	return nil
}

// typeNames returns the names of types.
func typeNames(ctx context.Context, tx pgx.Tx, oids []uint32) ([]string, error) {
	found, err := tx.Query(ctx, `SELECT format_type(t.oid, NULL) FROM unnest($1::oid[]) WITH ORDINALITY AS t (oid, n) ORDER BY t.n`, oids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// absent returns the functions that a schema does not have.
func absent(ctx context.Context, conn queryer, schema string, list []function) (lacking []function, err error) {
	found, err := conn.Query(ctx, `SELECT p.proname::text FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1`, schema)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(names))
	for _, name := range names {
		have[name] = true
	}
	for _, f := range list {
		if !have[f.name] {
			lacking = append(lacking, f)
		}
	}
	return lacking, nil
}

// createFunctions makes the functions that a schema lacks, in one transaction, under the lock of
// the migrations.
func createFunctions(ctx context.Context, conn *pgx.Conn, schema string, list []function) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockNumber(schema)); err != nil {
			return err
		}
		lacking, err := absent(ctx, tx, schema, list)
		if err != nil {
			return err
		}
		for i := range lacking {
			if err := lacking[i].create(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// codeRefused is insufficient_privilege.
const codeRefused = "42501"

// errNoFunctions is why statements are not called: the schema has no functions, and this program
// must not make them.
var errNoFunctions = errors.New("functions are missing; run abide migrate up with this URL")

// useFunctions has a store call its statements, and makes the functions if they are missing and
// the program may. If it may not, the statements are sent as they are, which is logged.
func useFunctions(ctx context.Context, conn *pgx.Conn, c *config, text *statements, settings []string, log *slog.Logger) error {
	list := functionsOf(c.quoted(), text, settings...)
	lacking, err := absent(ctx, conn, c.schema, list)
	switch {
	case err != nil:
		return failed("read functions", err)
	case len(lacking) > 0 && c.migrate:
		err = createFunctions(ctx, conn, c.schema, list)
	case len(lacking) > 0:
		err = errNoFunctions
	}
	if errors.Is(err, errNoFunctions) || code(err) == codeRefused {
		log.Warn("statements are planned for each use", "schema", c.schema, "error", err)
		return nil
	}
	if err != nil {
		return failed("create functions", err)
	}
	for i := range list {
		text.replace(list[i].sql, list[i].call())
	}
	return nil
}

// plainSender sends statements in a transaction of a user's: as they are, and not as calls of
// functions, of which the server would keep plans that were made with the user's settings.
type plainSender struct {
	sender
	text *statements
}

func (p plainSender) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		q.SQL = p.text.inTransaction(q.SQL)
	}
	return p.sender.SendBatch(ctx, b)
}
