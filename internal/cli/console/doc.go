// Package console is how commands talk to people and programs: flags and arguments, tables and
// JSON, pages, watches, progress, questions, colours and logs.
package console
