// Package cli is the command line of Abide: one file for each verb, a table for
// people and JSON for programs. It holds no rules of its own; it reads flags, calls
// what does the work, and prints what that returns.
package cli
