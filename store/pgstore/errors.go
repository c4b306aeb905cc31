package pgstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

const (
	codeReadOnly = "25006" // read_only_sql_transaction: the server has become a replica
	codeLocked   = "55P03" // lock_not_available: another transaction held a lock for too long
)

// Codes of errors that mean something to us.
var (
	// Another transaction came in between: the same again goes through.
	codesRetry = []string{
		"23505", // unique_violation: it has inserted the row first
		"40001", // serialization_failure
		"40P01", // deadlock_detected
	}

	// There is no room.
	codesFull = []string{
		"53100", // disk_full
		"53200", // out_of_memory
	}

	// The server is going down, comes up, or is not the one to write to any more: another
	// connection finds another one.
	codesGone = []string{
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"57P05", // idle_session_timeout
		codeReadOnly,
		"25P03", // idle_in_transaction_session_timeout
	}
)

// code returns the code of an error that the server reported, or nothing.
func code(err error) string {
	if reported, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reported.Code
	}
	return ""
}

// isGone reports whether the connection is of no use any more.
func isGone(err error) bool {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return true // the network, or our own end of it
	}
	return fatal(reported) || slices.Contains(codesGone, reported.Code) || strings.HasPrefix(reported.Code, "08")
}

// isStale reports whether the same may go through on another connection: the server said
// that this one is of no use any more, or nothing could be sent on it.
func isStale(err error) bool {
	return isGone(err) && (code(err) != "" || pgconn.SafeToRetry(err))
}

// fatal reports whether the server ended the connection with the error.
func fatal(reported *pgconn.PgError) bool {
	severity := reported.SeverityUnlocalized
	if severity == "" {
		severity = reported.Severity
	}
	return severity != "ERROR"
}

// rolledBack returns the error of an update that is certain to have changed nothing, wrapped in the
// sentinel of rows that says what to do about it.
func rolledBack(err error) error {
	switch c := code(err); {
	case isFenced(err):
		return fmt.Errorf("pgstore: update: %w: %w: %w", rows.ErrRolledBack, store.ErrFenced, err)
	case slices.Contains(codesRetry, c) || isConflict(err):
		return fmt.Errorf("pgstore: update: %w: %w", rows.ErrRetry, err)
	case c == codeLocked:
		return fmt.Errorf("pgstore: update: %w: %w", rows.ErrLocked, err)
	case slices.Contains(codesFull, c):
		return fmt.Errorf("pgstore: update: %w: %w", store.ErrFull, err)
	}
	return fmt.Errorf("pgstore: update: %w: %w", rows.ErrRolledBack, err)
}

// isConflict reports whether another transaction has changed a row first: see guardEnd.
func isConflict(err error) bool {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.Contains(reported.Message, conflictText)
}

// errUnreplicated is the error of a commit that the primary has, and perhaps no standby: its wait for
// a synchronous standby was cancelled, by an operator say. The server then reports that it is
// committed, with a warning.
var errUnreplicated = errors.New("the wait for a synchronous standby was cancelled")

// unreplicated is the mark of a connection that has had such a warning. It is closed after the
// commit.
const unreplicated = "abide: unreplicated"

// noteUnreplicated marks a connection. The routine says which warning it is, in any language.
func noteUnreplicated(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unreplicated] = true
	}
}

func isUnreplicated(conn *pgconn.PgConn) bool {
	_, ok := conn.CustomData()[unreplicated]
	return ok
}

// failed returns the error of a read.
func failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: %s: %w", verb, err)
}

// isRetry reports whether the update failed because of another transaction, and may be repeated.
func isRetry(err error) bool { return errors.Is(err, rows.ErrRetry) }
