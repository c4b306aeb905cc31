package rows

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// env is what the parts of a Core share. Its fields are set by New and Start and do not
// change after that, so that reading them needs no lock.
type env struct {
	db    Database
	clock base.Clock
	o     Options
	time  *storeTime
	life  *lifecycle
	token func() string // returns a new token for a lease
}

// ownedToken returns a new token for a lease, which carries the owner of the claim: the backends
// store nothing else of a claimer.
func (e *env) ownedToken(owner string) string { return string(store.OwnedToken(owner, e.token())) }

// lifecycle is the open or closed state of a store, and the goroutines to wait for when it
// closes.
//
//	open ──close──▶ closed ──(tasks have ended)──▶ drained ──(writers have ended)──▶ done
//
// While closed, no task starts, no call of a user is accepted, and waiting calls end with
// ErrClosed; but tasks still release what they lease, and writers still run those releases.
// Once drained, writers end when nothing is left to run.
//
// Invariant: no task starts after closed is set, so that tasks.Wait returns only when the
// last one has ended. Its mutex is the innermost of the package.
type lifecycle struct {
	ctx      context.Context // of work that belongs to no single call: groups, releases
	cancel   context.CancelFunc
	querying context.Context // of queries that only read or lease; ends closeGrace after close
	stop     context.CancelFunc

	tasks   sync.WaitGroup // goroutines that query on behalf of waiting calls
	writers sync.WaitGroup // goroutines that run groups

	closing chan struct{} // closed when the store is

	mu     sync.Mutex
	closed bool
}

func newLifecycle() *lifecycle {
	l := &lifecycle{closing: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.querying, l.stop = context.WithCancel(l.ctx)
	return l
}

// close marks the store closed, and reports whether it was open.
func (l *lifecycle) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	close(l.closing)
	return true
}

// spawn runs f as a task, and reports whether it does: a closed store starts none.
func (l *lifecycle) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.tasks.Go(f)
	return true
}

// check returns the error of a call that cannot be made: that of ctx if it has ended, or
// store.ErrClosed.
func (l *lifecycle) check(ctx context.Context, verb string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return store.Closed(verb)
	}
	return nil
}

// newTokens returns a function that makes tokens: 8 random bytes of the process, then a
// counter, so that no two leases of any processes share one.
func newTokens() func() string {
	var prefix [8]byte
	rand.Read(prefix[:])
	var count atomic.Uint64
	return func() string {
		var b [16]byte
		copy(b[:8], prefix[:])
		binary.BigEndian.PutUint64(b[8:], count.Add(1))
		return base64.RawURLEncoding.EncodeToString(b[:])
	}
}
