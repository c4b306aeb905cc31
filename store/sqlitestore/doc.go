// Package sqlitestore keeps a store in one SQLite file, which several processes of one machine may
// open, and which anybody can read with SQL. The rules of the contract are those of
// [github.com/abidehq/abide/internal/rows]; this package is the SQL. docs/sqlite.md describes the
// tables and says what is guaranteed.
//
// # Connections
//
//	writer   one connection; all transactions of this process that write (writer.go)
//	readers  a pool; each read is a transaction on a snapshot, and waits for nobody (pool.go)
//
// SQLite has one write lock for the whole file. So there is one writer per process, groups of
// commits share its transactions, and rows need no locks: an Update never has to be repeated. The
// lock of another process is waited for by trying again, in this package and not in SQLite, so
// that no call ever fails with "database is locked" and a process that is stuck is logged.
//
// # Durability
//
// The file is in write-ahead mode. Commits are synced (synchronous=FULL), claims are not: the log is
// sequential, so that a crash that loses a claim loses everything after it, and a commit under
// that claim is after it and synced. A commit that could not be written or synced may yet turn out
// to be there when the file is opened again: the outcome is unknown, and the store refuses all
// further calls.
//
// # Other processes
//
// A goroutine reads PRAGMA data_version every 20 to 250 ms (watch.go) and hints to the core that
// something has changed. The clock is that of the machine; the latest time is written to the file
// (meta), so that a process whose clock is behind does not go back. Exclude uses a lock file beside
// the database (exclude.go).
//
// # Indexes
//
// The statements of claims and lists are ranges of an index that they name (INDEXED BY), so that
// SQLite fails instead of scanning the table if it is not there. The indexes of due keys hold only
// keys that have a message and no lease. Messages are indexed from the 32nd of a key on: the few
// before are all read, so that most messages are written to one tree instead of three.
//
// # The driver
//
// Of the two drivers of the same engine, zombiezen.com/go/sqlite hands values over without the
// interfaces of database/sql, which saves a third of a lookup and a tenth of an insert, and lets a
// statement be stepped, bound and read in place. What makes a commit safe is in the engine, and the
// same in both.
//
// # What is not here
//
// The store does not know what is in the bodies that it keeps. Views that decode histories, and the
// conversion of databases of an older design, are in internal/sqlitetools, which registers them
// with [Extend].
package sqlitestore
