package console

import "fmt"

// UsageError is a mistake in the command line.
type UsageError struct{ err error }

// Error implements error.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

// Usage returns a mistake in the command line.
func Usage(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// AsUsage makes an error a mistake in the command line.
func AsUsage(err error) error { return &UsageError{err} }
