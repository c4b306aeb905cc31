// Package pgstore keeps a store in PostgreSQL: the way to many machines.
//
// All that a store holds is in one schema of a database, in a few tables: a row for each
// key, for each pending message, for each append to a log and for each record. Any number
// of processes work on it at the same time. The rules of the contract are those of
// [github.com/abidehq/abide/internal/rows]; here is the SQL.
//
// Commits that come at the same time share a transaction, with arrays for parameters: two
// round trips, one to lock and load what is there, one to write. A claim is a single
// statement: it finds what is ready by index, locks it with SKIP LOCKED, leases it, and
// returns it with its messages. The database's clock is the only one. Processes tell each
// other by NOTIFY what they changed, which is a hint: everything works without it, a
// little later.
//
// docs/postgres.md says how to set it up, what is guaranteed, and what it needs.
package pgstore
