// Package rows is what the stores on SQL databases share: everything of the contract
// but SQL.
//
// A store is three tables of rows: keys, messages and records, and one of log entries.
// A backend is a [Database]: it loads and locks rows, writes changes that were worked out
// for it, leases keys that are ready, and reads. The [Frame] is the rest of a
// [github.com/abidehq/abide/store.Store]: commits that come at the same time are gathered
// into one transaction, in which each has its own verdict; calls that wait are served by
// commits of this process, by hints of other processes and by the next due time; a
// message that is put for somebody who waits in this process is leased to them by the
// very commit that puts it, and never looked for.
//
// The rules of a commit are worked out in memory, in this package, on the rows that the
// database loaded: one place for both backends, and no rule is written in SQL.
package rows
