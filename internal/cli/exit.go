package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/store"
)

// Exit codes of the program. Scripts rely on them: they never change their meaning.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2 // the command line makes no sense; nothing was done
	ExitNotFound    = 3 // what was asked for does not exist
	ExitConflict    = 4 // somebody else changed it, or holds it
	ExitUnreachable = 5 // the server or the store cannot be reached
)

// usageError is a mistake in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exitCode returns the code for the error that a command returned.
func exitCode(err error) int {
	var mistake *usageError
	var network *net.OpError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &mistake), errors.Is(err, bench.ErrOptions), errors.Is(err, action.ErrInvalid):
		return ExitUsage
	case errors.Is(err, store.ErrNotFound), errors.Is(err, action.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrInUse),
		errors.Is(err, action.ErrExists), errors.Is(err, action.ErrState), errors.Is(err, action.ErrConflict):
		return ExitConflict
	case errors.Is(err, remote.ErrUnreachable), errors.As(err, &network):
		return ExitUnreachable
	default:
		return ExitFailure
	}
}

// explain returns an error as a person reads it.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}
