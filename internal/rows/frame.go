package rows

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Frame is a store without its reads: Commit, Claim, Renew, Release and Await on a
// [Database]. A backend embeds it.
type Frame struct {
	db    Database
	clock base.Clock
	o     Options

	ctx    context.Context // of what is done for nobody in particular
	cancel context.CancelFunc
	tasks  sync.WaitGroup // groups under way, and picks for those who wait

	mu      sync.Mutex
	closed  bool
	closing chan struct{}

	// Commits that gather.
	gathered []*call
	room     *sync.Cond // signalled when something is gathered, or at the end

	// Claims that wait.
	queues  map[string]*queue
	lanes   map[int64]*lane
	picks   map[*pick]bool // under way
	polling bool
	pollGap time.Duration

	awaiters map[store.RecordKey][]*awaiter
	numbers  map[int64]map[store.RecordKey]bool // of records that are awaited
	recent   *recent

	// What the database's clock showed last, and how far it is ahead of ours.
	lastNow  int64
	offset   int64
	offsetAt time.Time

	tokenPrefix [8]byte
	tokenCount  uint64
}

// Options of a frame.
type Options struct {
	// Clock measures how long to wait. Nil means that of the machine.
	Clock base.Clock

	// Writers is how many groups of commits may be under way at once: 1 if a second
	// one would only wait for the first.
	Writers int

	// MaxGroup is how many commits a group has at most. Zero means 512.
	MaxGroup int

	// Poll is how often the frame looks for what nobody told it of, while hints arrive,
	// and PollUnhinted is the longest that it waits to do so while they do not. Zero means
	// 10 seconds, and 1 second.
	Poll         time.Duration
	PollUnhinted time.Duration
}

// maxGroupBytes is about how large a group gets.
const maxGroupBytes = 16 << 20

// New returns a frame on a database. Start must be called before anything else is.
func New(o Options) *Frame {
	if o.Clock == nil {
		o.Clock = base.System{}
	}
	if o.MaxGroup == 0 {
		o.MaxGroup = 512
	}
	if o.Poll == 0 {
		o.Poll = 10 * time.Second
	}
	if o.PollUnhinted == 0 {
		o.PollUnhinted = time.Second
	}
	f := &Frame{
		clock: o.Clock, o: o, closing: make(chan struct{}),
		queues: map[string]*queue{}, lanes: map[int64]*lane{}, picks: map[*pick]bool{},
		awaiters: map[store.RecordKey][]*awaiter{}, numbers: map[int64]map[store.RecordKey]bool{}, recent: newRecent(),
	}
	f.room = sync.NewCond(&f.mu)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	rand.Read(f.tokenPrefix[:])
	return f
}

// Start begins to work on the database.
func (f *Frame) Start(db Database) {
	f.db = db
	for range max(f.o.Writers, 1) {
		f.tasks.Add(1)
		go f.write()
	}
}

// CloseFrame ends waiting calls, waits for commits under way, and reports whether it was
// the first to do so. The database is the backend's to close, after it.
func (f *Frame) CloseFrame() bool {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		f.tasks.Wait()
		return false
	}
	f.closed = true
	close(f.closing)
	for _, q := range f.queues {
		q.stopAlarm()
		for _, w := range q.waiters {
			w.end(nil, store.Closed("claim"))
		}
		q.waiters = nil
	}
	for p := range f.picks {
		p.cancel()
	}
	f.room.Broadcast()
	f.mu.Unlock()
	f.tasks.Wait()
	f.cancel()
	return true
}

// Check returns the error of a call that cannot be made: the store is closed, or the
// context has ended. Reads of a backend begin with it.
func (f *Frame) Check(ctx context.Context, verb string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return store.Closed(verb)
	}
	return nil
}

// Waiting returns how many Claim calls wait.
func (f *Frame) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, q := range f.queues {
		n += q.waiting
	}
	return n
}

// Ended is closed when the store is closed.
func (f *Frame) Ended() <-chan struct{} { return f.closing }

// observe notes what the database's clock showed.
func (f *Frame) observe(now int64) {
	local := f.clock.Now()
	offset := now - local.UnixMilli()
	if offset > f.offset || local.Sub(f.offsetAt) > 10*time.Second || f.lastNow == 0 {
		f.offset, f.offsetAt = offset, local
	}
	f.lastNow = max(f.lastNow, now)
}

// now returns about what the database's clock shows.
func (f *Frame) now() int64 {
	return max(f.lastNow, f.clock.Now().UnixMilli()+f.offset)
}

// token returns a new token for a lease.
func (f *Frame) token() string {
	f.tokenCount++
	var b [16]byte
	copy(b[:8], f.tokenPrefix[:])
	binary.BigEndian.PutUint64(b[8:], f.tokenCount)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
