package cli

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
	"github.com/abidehq/abide/timer"
)

// Exit codes of the program. Scripts rely on them: they never change their meaning.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2 // invalid command line; nothing was done
	ExitNotFound    = 3 // what was asked for does not exist
	ExitConflict    = 4 // changed or held by another process, or not allowed in its status
	ExitUnreachable = 5 // the server or the store cannot be reached, or is too busy
)

// exits has the sentinel errors that have a code, in the order in which they are looked for.
var exits = []struct {
	code int
	errs []error
}{
	{ExitUsage, []error{bench.ErrOptions, abide.ErrInvalid, action.ErrInvalid, timer.ErrInvalid, operation.ErrInvalid, auth.ErrInvalid}},
	{ExitNotFound, []error{store.ErrNotFound, abide.ErrNotFound, action.ErrNotFound, timer.ErrNotFound, operation.ErrNotFound, auth.ErrNotFound}},
	{ExitConflict, []error{
		store.ErrConflict, store.ErrInUse, store.ErrIncomplete, store.ErrShard, shardstore.ErrMove, store.ErrBackup, store.ErrReadOnly, transfer.ErrTarget, transfer.ErrChanged, abide.ErrExists, abide.ErrState, abide.ErrStalled, abide.ErrConflict,
		action.ErrExists, action.ErrState, action.ErrConflict,
		timer.ErrExists, timer.ErrState, timer.ErrConflict, timer.ErrQuota,
		operation.ErrExists, operation.ErrState, operation.ErrConflict,
	}},
	{ExitUnreachable, []error{remote.ErrUnreachable, abide.ErrBusy}},
}

// exitProblems has the codes of problems that a server names and that have a code here.
var exitProblems = map[string]int{
	api.CodeInvalid:     ExitUsage,
	api.CodeTooLarge:    ExitUsage,
	api.CodePayload:     ExitUsage,
	api.CodeUnserved:    ExitUsage,
	api.CodeStalled:     ExitConflict,
	api.CodeNotFound:    ExitNotFound,
	api.CodeExists:      ExitConflict,
	api.CodeState:       ExitConflict,
	api.CodeConflict:    ExitConflict,
	api.CodeQuota:       ExitConflict,
	api.CodeUnavailable: ExitUnreachable,
	api.CodeBusy:        ExitUnreachable,
}

// exitCode returns the code for the error that a command returned.
func exitCode(err error) int {
	var mistake *console.UsageError
	var failed *abide.InstanceError
	var problem *api.Problem
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &mistake):
		return ExitUsage
	case errors.As(err, &failed):
		return ExitFailure // whatever it met, it is the instance's failure
	}
	for _, e := range exits {
		for _, sentinel := range e.errs {
			if errors.Is(err, sentinel) {
				return e.code
			}
		}
	}
	if errors.As(err, &problem) && exitProblems[problem.Code] != 0 {
		return exitProblems[problem.Code]
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return ExitUnreachable
	}
	return ExitFailure
}

// explain returns an error as a person reads it.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return strings.TrimPrefix(console.Printable(err.Error()), "abide: ") // which is how the line begins
}
