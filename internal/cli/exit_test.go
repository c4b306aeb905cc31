package cli

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/store"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("anything"), ExitFailure},
		{usage("wrong"), ExitUsage},
		{bench.ErrOptions, ExitUsage},
		{store.ErrNotFound, ExitNotFound},
		{store.ErrConflict, ExitConflict},
		{store.ErrInUse, ExitConflict},
		{action.ErrInvalid, ExitUsage},
		{action.ErrNotFound, ExitNotFound},
		{action.ErrExists, ExitConflict},
		{action.ErrState, ExitConflict},
		{action.ErrConflict, ExitConflict},
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
