// Package fleet is nothing but tests: of many processes on one PostgreSQL, as people run
// Abide where one machine is not enough.
//
// A test starts its own binary several times, as processes that serve the same
// orchestrations and fire the same timers, and puts a steady load on them while things go
// wrong: processes are killed and frozen, the database is restarted, the network between
// the two is cut or swallows what is sent, clocks are off, notifications do not arrive,
// and new versions are deployed. Afterwards everything must have come to its right end:
// nothing lost, nothing twice, nothing early, nothing left.
//
// What activities have done to the world is in tables of the same database (see the
// ledger), and what the timers have told the world is in a file for each process, so that
// what was done twice can be seen.
package fleet
