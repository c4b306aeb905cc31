// Package taskhubtest runs the SDK for JavaScript of Durable Task, as npm has it, against `abide serve`.
//
// The package has tests only. They build the program abide and start it on the embedded store and on PostgreSQL.
// The scenarios are programs in JavaScript, in testdata: runner.js starts one worker with all their code, runs
// them all at once, each with a client of its own, and prints the result of each. Node and the SDK are installed by
// `make javascript`.
//
// One test kills the server again and again while scenarios run: clients repeat calls while it is away, the worker
// connects again by itself, and all of them must end as they do without.
package taskhubtest
