package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// ErrFault is the error of a call that was made to fail. It matches none of the
// store's sentinels, so the outcome of the call is unknown to its caller.
var ErrFault = errors.New("storetest: injected fault")

// Fault is how a call to a [Faulty] store fails.
type Fault int

// How a call can fail. Who wants a call to fail ambiguously tosses a coin.
const (
	NoFault    Fault = iota // it does not
	FailBefore              // nothing happens
	FailAfter               // it happens, and the caller gets an error all the same
)

// Call is a call to a [Faulty] store.
type Call struct {
	N      int    // 1 for the first
	Method string // of [store.Store]
}

// Faulty is a store whose calls fail as a plan says. It stands for how one process
// sees the store: others that use the store itself see nothing of the faults.
type Faulty struct {
	store  store.Store
	killed context.Context //nolint:containedctx // ends when the process that the wrapper stands for is gone
	kill   context.CancelFunc

	mu    sync.Mutex
	calls int
	plan  func(Call) Fault
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty returns a store whose calls fail as plan says, which is asked about one
// call at a time. A nil plan means that none does.
func NewFaulty(s store.Store, plan func(Call) Fault) *Faulty {
	f := &Faulty{store: s, plan: plan}
	f.killed, f.kill = context.WithCancel(context.Background())
	return f
}

// Kill has all calls fail from now on, also those that wait: as if the process that
// makes them had been killed, or cut off.
func (f *Faulty) Kill() { f.kill() }

// Plan replaces the plan.
func (f *Faulty) Plan(plan func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Calls returns how many calls there were.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *Faulty) next(method string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.plan == nil {
		return NoFault
	}
	return f.plan(Call{N: f.calls, Method: method})
}

// call makes a call, or not, as the plan says.
func call[T any](ctx context.Context, f *Faulty, method string, do func(context.Context) (T, error)) (T, error) {
	var none T
	fault := f.next(method)
	if f.killed.Err() != nil || fault == FailBefore {
		return none, fmt.Errorf("%s: %w", method, ErrFault)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.killed, cancel)()
	result, err := do(ctx)
	if f.killed.Err() != nil || fault == FailAfter {
		return none, fmt.Errorf("%s, which may have happened: %w", method, ErrFault)
	}
	return result, err
}

func (f *Faulty) callErr(ctx context.Context, method string, do func(context.Context) error) error {
	_, err := call(ctx, f, method, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// Commit commits, or fails.
func (f *Faulty) Commit(ctx context.Context, tx *store.Tx) error {
	return f.callErr(ctx, "Commit", func(ctx context.Context) error { return f.store.Commit(ctx, tx) })
}

// Claim claims, or fails.
func (f *Faulty) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	return call(ctx, f, "Claim", func(ctx context.Context) ([]store.Claim, error) { return f.store.Claim(ctx, req) })
}

// Renew renews, or fails.
func (f *Faulty) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	return call(ctx, f, "Renew", func(ctx context.Context) ([]store.Lease, error) { return f.store.Renew(ctx, d, leases) })
}

// Leases lists leases, or fails.
func (f *Faulty) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	return call(ctx, f, "Leases", func(ctx context.Context) ([]store.LeaseInfo, error) { return f.store.Leases(ctx, q) })
}

// Release releases, or fails.
func (f *Faulty) Release(ctx context.Context, r store.Release) error {
	return f.callErr(ctx, "Release", func(ctx context.Context) error { return f.store.Release(ctx, r) })
}

// ReadLog reads, or fails.
func (f *Faulty) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	return call(ctx, f, "ReadLog", func(ctx context.Context) (store.LogPage, error) { return f.store.ReadLog(ctx, key, from) })
}

// Pending reads, or fails.
func (f *Faulty) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	return call(ctx, f, "Pending", func(ctx context.Context) ([]store.Message, error) { return f.store.Pending(ctx, key, limit) })
}

// Get reads, or fails.
func (f *Faulty) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return call(ctx, f, "Get", func(ctx context.Context) (store.Record, error) { return f.store.Get(ctx, key) })
}

// List reads, or fails.
func (f *Faulty) List(ctx context.Context, q store.Query) (store.Page, error) {
	return call(ctx, f, "List", func(ctx context.Context) (store.Page, error) { return f.store.List(ctx, q) })
}

// Count reads, or fails.
func (f *Faulty) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	return call(ctx, f, "Count", func(ctx context.Context) (int, error) { return f.store.Count(ctx, q, limit) })
}

// Await waits, or fails.
func (f *Faulty) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	return call(ctx, f, "Await", func(ctx context.Context) (store.Record, error) { return f.store.Await(ctx, key, after) })
}

// Stats reads, or fails.
func (f *Faulty) Stats(ctx context.Context) (store.Stats, error) {
	return call(ctx, f, "Stats", f.store.Stats)
}

// Close does nothing: the store belongs to the test, which uses it besides.
func (*Faulty) Close() error { return nil }

// Limits returns those of the store behind it.
func (f *Faulty) Limits() store.Limits { return f.store.Limits() }
