package cli

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("anything"), ExitFailure},
		{console.Usage("wrong"), ExitUsage},
		{bench.ErrOptions, ExitUsage},
		{store.ErrNotFound, ExitNotFound},
		{store.ErrConflict, ExitConflict},
		{store.ErrInUse, ExitConflict},
		{action.ErrInvalid, ExitUsage},
		{action.ErrNotFound, ExitNotFound},
		{action.ErrExists, ExitConflict},
		{action.ErrState, ExitConflict},
		{action.ErrConflict, ExitConflict},
		{abide.ErrInvalid, ExitUsage},
		{abide.ErrNotFound, ExitNotFound},
		{abide.ErrExists, ExitConflict},
		{abide.ErrState, ExitConflict},
		{timer.ErrInvalid, ExitUsage},
		{timer.ErrNotFound, ExitNotFound},
		{timer.ErrConflict, ExitConflict},
		{timer.ErrQuota, ExitConflict},
		{operation.ErrNotFound, ExitNotFound},
		{operation.ErrState, ExitConflict},
		{&abide.InstanceError{Status: abide.Failed, Err: abide.ErrNotFound}, ExitFailure},
		{&api.Problem{Code: api.CodeForbidden}, ExitFailure},
		{&api.Problem{Code: api.CodeUnauthenticated}, ExitFailure},
		{&api.Problem{Code: api.CodeNotFound}, ExitNotFound},
		{&api.Problem{Code: api.CodeUnavailable}, ExitUnreachable},
		{auth.ErrNotFound, ExitNotFound},
		{remote.ErrUnreachable, ExitUnreachable},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, ExitUnreachable},
	} {
		err := tt.err
		if err != nil {
			err = fmt.Errorf("do something: %w", err)
		}
		if got := exitCode(err); got != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.want)
		}
	}
}
