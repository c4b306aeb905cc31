package action_test

import (
	"context"
	"time"

	"github.com/abidehq/abide/store"
)

// hooked is a store with a hook that is called before and after each call. Other than the
// plan of a faulty store, a hook may take its time. What is sent to the store arrives there
// in the end, also if who has sent it has given up. Stats has no hook: it is how the store's
// time is asked for, under a lock, and who waits for a lock keeps virtual time from passing.
type hooked struct {
	store.Store
	hook func(method string, after bool)
}

var _ store.Store = (*hooked)(nil)

func (h *hooked) around(method string) func() {
	h.hook(method, false)
	return func() { h.hook(method, true) }
}

// Commit commits between two calls of the hook, and so do the others what they do.
func (h *hooked) Commit(ctx context.Context, tx *store.Tx) error {
	defer h.around("Commit")()
	return h.Store.Commit(context.WithoutCancel(ctx), tx)
}

func (h *hooked) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	defer h.around("Claim")()
	return h.Store.Claim(ctx, req)
}

func (h *hooked) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	defer h.around("Renew")()
	return h.Store.Renew(context.WithoutCancel(ctx), d, leases)
}

func (h *hooked) Release(ctx context.Context, r store.Release) error {
	defer h.around("Release")()
	return h.Store.Release(context.WithoutCancel(ctx), r)
}

func (h *hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	defer h.around("Get")()
	return h.Store.Get(ctx, key)
}

func (h *hooked) List(ctx context.Context, q store.Query) (store.Page, error) {
	defer h.around("List")()
	return h.Store.List(ctx, q)
}
