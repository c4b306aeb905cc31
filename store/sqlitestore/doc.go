// Package sqlitestore keeps a store in one file: an SQLite database that people can open
// and query with any tool while it is in use. docs/sqlite.md says what they find there.
//
// Several processes of one machine may have the file open. Each has one connection that
// writes, and some that read. A group of commits is one transaction, synced before it is
// acknowledged; readers see the last one and never wait for a writer. That another process
// holds the lock is waited out and never an error.
//
// The rules of the contract are in [github.com/abidehq/abide/internal/rows]; this package
// loads and writes rows.
//
// Of the two drivers of the same engine, zombiezen.com/go/sqlite is the one: it hands
// values over without the interfaces of database/sql, which saves a third of a lookup and
// a tenth of an insert, and lets a statement be stepped, bound and read in place. What
// makes a commit safe is in the engine, and the same in both.
package sqlitestore
