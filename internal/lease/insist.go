package lease

import (
	"context"
	"errors"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Insist commits, and tries again while its outcome is unknown, until ctx ends:
// for what has had its effect already, and would have it again. If the first try succeeded
// without anybody learning of it, the second one has lost its claim, or meets a conflict.
func Insist(ctx context.Context, s store.Store, clock base.Clock, tx *store.Tx) error {
	trouble := backoff.Outage(clock)
	for {
		err := s.Commit(ctx, tx)
		if err == nil || known(err) || trouble.Sleep(ctx) != nil {
			return err
		}
	}
}

// known reports whether it is known after an error that nothing has changed, and that
// another try would not change that.
func known(err error) bool {
	for _, known := range []error{store.ErrConflict, store.ErrClaimLost, store.ErrClosed, store.ErrFailed, store.ErrInvalid} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
