// Package pgstore keeps a store in PostgreSQL, shared by any number of processes on any number of
// machines. The rules of the contract are those of
// [github.com/abidehq/abide/internal/rows]; this package is the SQL. docs/postgres.md says how to
// set it up, what is guaranteed, and what it needs.
//
// # Tables
//
// All of a store is in one schema:
//
//	keys        a row for each key, with its lease and often its only message (m_…)
//	messages    a row for each other pending message
//	entries     a row for each append to a log, or part of one (chunk)
//	records     a row for each record
//	tally       changes of the number of pending messages, by partition; folded now and then
//	processes   a row for each process that has the store open
//	migrations  the format of the tables
//
// The column lane is the number of a partition, turn that of a tenant, rev a revision that each
// change of a key, its messages or its entries raises.
//
// # Connections
//
//	commits   groups of commits, synced; as many as groups may be in flight
//	others    claims and reads, with synchronous_commit off: a lease need not survive a crash
//	aside     renewals, releases and calls that wait for row locks, so that neither they nor
//	          groups delay each other
//	listen    one connection that LISTENs (announce.go)
//
// With a pooler between, settings are sent with each transaction instead of once per connection,
// and there is no listening.
//
// # A commit
//
//	round trip 1   BEGIN; load keys, records, messages; read the clock, the exclusive flag,
//	               and whether this process is alone
//	               decide, in memory
//	round trip 2   one statement for each kind of change, with arrays; COMMIT
//
// Rows are not locked between the two: a lock is a write of the row, and conflicts are rare,
// since a key is leased to one caller. The statements that write compare revisions and versions
// (guardEnd), and a row that has changed ends the transaction with rows.ErrRetry. After a conflict
// the next updates of the process do lock (lockNext). All updates lock in the same order, so that
// they do not deadlock with each other; a claim that is chosen to end a deadlock is repeated.
//
// # A claim
//
// One statement (pickKeys) finds ready keys by index, lets tenants take turns, locks its choice
// with SKIP LOCKED, leases it, and returns it with its messages. It works on one snapshot: what it
// locks must still have the revision of the snapshot, or the messages that it returns could be
// older than the lock.
//
// # Time
//
// The clock of the server is the only one. It is read when all rows are loaded, and never goes
// back: each process keeps the latest time that it has seen as a floor for the next statement
// (base.Follower), unless the clock is set back by more than store.MaxClockLead, which is
// followed and logged.
//
// # Failures
//
//   - A connection is lost before the commit was sent: nothing has changed. Update tries another
//     connection if the error says that nothing was executed, and returns rows.ErrRolledBack
//     otherwise.
//   - It is lost after that: the outcome is unknown, and so the callers are told.
//   - The server becomes read-only (a failover): all connections are closed, and new ones look
//     for the primary.
//   - The process dies: its row in processes is removed by another one after a minute, its
//     leases end by time.
//   - The listening connection is lost: the core polls at short intervals until it is back, and
//     then queries for everything once.
//   - Another program migrates the tables to a format that this one must not work on: the next
//     heartbeat finds out, and every call fails with store.ErrFormat from then on.
//
// # What was tried instead
//
// Locking rows when they are loaded: a row that is locked is written once more, and conflicts are
// rare. Loading rows that the process has just written itself: the row cache saves that, and
// together with the message that is kept in the row of its key the server's time for a hello fell
// from 0.43 to 0.28 ms. Plans left to the server: see statements.go. One notification for each
// commit, and a star for any that is long: other processes then read every record that was awaited
// there, 3,000 reads for a commit of 1,000 records. A clock that is followed forward only: one
// commit with a clock a day ahead stopped the time of the store for a day.
package pgstore
