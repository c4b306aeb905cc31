// Package store has the commands about a store as a whole: backup, check, copy, clock,
// migration.
package store
