package store

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/errs"
)

// Sentinel errors. Test for them with [errors.Is]; the error that a store returns
// says more.
var (
	// ErrConflict: a log's length or a record's version is not the expected one.
	ErrConflict = fmt.Errorf("%w", errs.ErrConflict)

	// ErrClaimLost: the lease is no longer live. The messages are, or will be,
	// delivered to another claimer.
	ErrClaimLost = errors.New("claim lost")

	// ErrNotFound: there is no such record.
	ErrNotFound = fmt.Errorf("%w", errs.ErrNotFound)

	// ErrInvalid: the call breaks a rule of the contract and would break it again.
	ErrInvalid = fmt.Errorf("%w", errs.ErrInvalid)

	// ErrTooLarge: the call exceeds a limit. It matches ErrInvalid too.
	ErrTooLarge = fmt.Errorf("too large: %w", ErrInvalid)

	// ErrFull: there is no room to commit. Nothing was changed; it works again when
	// there is room.
	ErrFull = errors.New("store is full")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")

	// ErrInUse: the store is open in another process, and allows only one.
	ErrInUse = errors.New("store is in use")

	// ErrCorrupt: what is stored cannot be read. The error names the place.
	ErrCorrupt = errors.New("store is corrupt")

	// ErrFormat: what is stored has a format that this version does not read.
	ErrFormat = errors.New("unknown store format")

	// ErrFailed: the store hit an error after which it cannot go on, such as a disk
	// that does not sync. What was acknowledged is safe; what was under way is wholly
	// there or wholly absent. Open the store again, in a new process.
	ErrFailed = errors.New("store has failed")
)

// NotRenewedError is the error of a [Store.Renew] that renewed some of the leases: those that
// it neither names nor returned as lost. The ones that it names are as they were, and may be
// renewed by another call: their rows were locked by another transaction, say.
type NotRenewedError struct {
	Leases []Lease

	// Cause is why, if it is not that their rows were locked.
	Cause error
}

// Error says how many leases there are, and names one.
func (e *NotRenewedError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("store: renew: %d leases were not renewed, that of %v among them: %v", len(e.Leases), e.Leases[0].Key, e.Cause)
	}
	return fmt.Sprintf("store: renew: %d leases are locked by other transactions and were not renewed, that of %v among them", len(e.Leases), e.Leases[0].Key)
}

// ApartError is the [ErrTooLarge] of a commit over tenants that the store keeps in different
// places, in each of which a commit is atomic: the slots of a cluster, say.
type ApartError struct {
	// Tenants are two of which the commit has something and that are apart.
	Tenants [2]string

	// Place returns a number for the place of a tenant, for a caller that can make several
	// commits: tenants with the same number may be in one.
	Place func(tenant string) int
}

// Error names the tenants.
func (e *ApartError) Error() string {
	return fmt.Sprintf("store: commit: tenants %q and %q are in different places, and a commit is of one place: %v", e.Tenants[0], e.Tenants[1], ErrTooLarge)
}

// Unwrap returns [ErrTooLarge].
func (e *ApartError) Unwrap() error { return ErrTooLarge }

// LengthConflict returns the [ErrConflict] of a log that has another length than
// expected. Backends use it so that the same mistake reads the same everywhere.
func LengthConflict(key Key, expected, actual int) error {
	return fmt.Errorf("store: commit: log of %v has length %d, expected %d: %w", key, actual, expected, ErrConflict)
}

// BusyConflict returns the [ErrConflict] of an append with [Append.Idle] to a key that is not idle.
func BusyConflict(key Key) error {
	return fmt.Errorf("store: commit: %v is leased or has messages: %w", key, ErrConflict)
}

// VersionConflict returns the [ErrConflict] of a record that has another version
// than expected; version 0 is that of a record that does not exist.
func VersionConflict(key RecordKey, expected, actual int64) error {
	return &RecordConflict{Key: key, Expected: expected, Actual: actual}
}

// RecordConflict is the [ErrConflict] of a record, for a caller that wants to know which.
type RecordConflict struct {
	Key              RecordKey
	Expected, Actual int64 // versions
}

// Error returns the conflict for people.
func (e *RecordConflict) Error() string {
	return fmt.Sprintf("store: commit: record %v has version %d, expected %d: %v", e.Key, e.Actual, e.Expected, ErrConflict)
}

// Unwrap returns [ErrConflict].
func (e *RecordConflict) Unwrap() error { return ErrConflict }

// ClaimLost returns the [ErrClaimLost] of a lease.
func ClaimLost(verb string, lease Lease) error {
	return fmt.Errorf("store: %s: %v: %w", verb, lease.Key, ErrClaimLost)
}

// NotFound returns the [ErrNotFound] of a record.
func NotFound(verb string, key RecordKey) error {
	return fmt.Errorf("store: %s: record %v: %w", verb, key, ErrNotFound)
}

// Closed returns [ErrClosed] for a call.
func Closed(verb string) error {
	return fmt.Errorf("store: %s: %w", verb, ErrClosed)
}

func invalid(verb, format string, args ...any) error {
	return fmt.Errorf("store: %s: %s: %w", verb, fmt.Sprintf(format, args...), ErrInvalid)
}

func tooLarge(verb, what string, size, limit int) error {
	return fmt.Errorf("store: %s: %s is %d, at most %d is allowed: %w", verb, what, size, limit, ErrTooLarge)
}
