package rows

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
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

	ctx     context.Context // of what is done for nobody in particular
	cancel  context.CancelFunc
	looking context.Context // of what is only looked for; ends sooner when the store is closed
	stop    context.CancelFunc
	tasks   sync.WaitGroup // that look for those who wait
	writers sync.WaitGroup

	random      *mathrand.Rand
	tokenPrefix [8]byte
	tokenCount  atomic.Uint64

	mu      sync.Mutex
	closed  bool
	held    bool // nothing goes to quarantine by itself
	closing chan struct{}

	// Commits that gather, and groups of them that are under way.
	gathered []*call
	inStock  map[store.Token]bool
	running  int        // calls in groups that are under way
	slow     int        // groups that have been under way for longer than patience
	busy     inFlight   // what they touch
	enough   int        // with fewer calls that gather there is nothing to begin while others are under way
	room     *sync.Cond // signalled when something is gathered, or at the end
	drained  bool       // nothing more comes
	groups   map[*group]bool

	// What is run aside: see aside.go.
	urgent    []*call
	stuck     []stuckCalls
	roomAside *sync.Cond

	// Claims that wait.
	queues     map[string]*queue
	partitions map[int64]*partition
	laneLimit  int
	waiters    uint64 // how many have come
	looks      uint64 // how many have begun
	polling    bool
	pollGap    time.Duration
	pollStop   func() bool
	pollAt     uint64 // which poll it is

	awaiters  map[int64]map[*awaiter]bool // by the number of the record
	recent    *recent
	lookingAt bool // all awaited records are being looked at
	lookAgain bool // and are to be once more

	// What the database's clock showed last, and how far it is ahead of ours, which counts
	// from when the frame was made.
	made     time.Time
	time     *base.Follower
	offset   int64
	offsetAt time.Time
}

// Options of a frame.
type Options struct {
	// Clock measures how long to wait. Nil means that of the machine.
	Clock base.Clock

	// Writers is how many groups of commits may be under way at once: 1 if a second
	// one would only wait for the first.
	Writers int

	// Aside says that there is a connection for renewals, releases and calls that wait for a
	// lock, which groups of commits do not use: updates whose Need has a LockWait. Without
	// it Update must not return ErrLocked.
	Aside bool

	// MaxGroup is how many commits a group has at most. Zero means 512.
	MaxGroup int

	// Poll is how often the frame looks for what nobody told it of, while hints arrive,
	// and PollUnhinted is the longest that it waits to do so while they do not. Zero means
	// 30 seconds, and 1 second.
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
		o.Poll = 30 * time.Second
	}
	if o.PollUnhinted == 0 {
		o.PollUnhinted = time.Second
	}
	f := &Frame{
		clock: o.Clock, o: o, made: o.Clock.Now(), time: base.NewFollower(store.MaxClockLead), closing: make(chan struct{}),
		inStock: map[store.Token]bool{}, busy: newInFlight(),
		groups: map[*group]bool{}, queues: map[string]*queue{}, partitions: map[int64]*partition{},
		awaiters: map[int64]map[*awaiter]bool{}, recent: newRecent(), pollStop: func() bool { return false },
	}
	f.room, f.roomAside = sync.NewCond(&f.mu), sync.NewCond(&f.mu)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.looking, f.stop = context.WithCancel(f.ctx)
	rand.Read(f.tokenPrefix[:])
	f.random = mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(f.tokenPrefix[:]), 0))
	return f
}

// Start begins to work on the database.
func (f *Frame) Start(db Database) {
	f.db = db
	for range max(f.o.Writers, 1) {
		f.writers.Go(f.write)
	}
	if f.o.Aside {
		f.writers.Go(f.writeAside)
	}
}

// closeGrace is how long those who look have to come to an end when the store is closed:
// then they know what they leased, and it is let go. One that is torn may leave leases
// of which nobody knows.
const closeGrace = 5 * time.Second

// CloseFrame ends waiting calls, waits for commits under way, and reports whether it was
// the first to do so. The database is the backend's to close, after it.
func (f *Frame) CloseFrame() bool {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		f.tasks.Wait()
		f.writers.Wait()
		return false
	}
	f.closed = true
	close(f.closing)
	f.pollStop()
	for _, q := range f.queues {
		q.stopAlarm()
		for _, v := range q.views {
			for _, w := range v.waiters {
				w.end(nil, store.Closed("claim"))
			}
			v.waiters = nil
			for _, k := range v.keys {
				f.letGo(k.claim.Lease())
			}
			v.keys = nil
		}
		q.idle = 0
	}
	f.mu.Unlock()
	late := f.clock.AfterFunc(closeGrace, f.stop)
	f.tasks.Wait()
	late()
	f.mu.Lock()
	f.drained = true
	f.wake()
	f.mu.Unlock()
	f.writers.Wait()
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

// Hold keeps messages whose time to live has ended from going to quarantine, while hold is
// true: nothing changes by itself in a store that is excluded. It waits for what is under
// way.
func (f *Frame) Hold(hold bool) {
	f.mu.Lock()
	f.held = hold
	var sweeps []chan struct{}
	for _, q := range f.queues {
		for _, v := range q.views {
			v.stale = true
		}
		if q.sweeping != nil {
			sweeps = append(sweeps, q.sweeping)
		}
		f.serve(q)
	}
	f.mu.Unlock()
	if hold {
		for _, done := range sweeps {
			<-done
		}
	}
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

// question is what was known when the database was asked for something.
type question struct {
	base.Question
	at time.Time // by our clock
}

// question returns one. The database is asked after that.
func (f *Frame) question() question { return question{f.time.Ask(), f.clock.Now()} }

// observe notes what the database's clock showed in the answer to a question. If it took
// long, the time of the question is the better guess: the answer may have been on its way
// for as long, or this process may have stood still. If the clock was set back, all that
// waits for a time is looked at again.
func (f *Frame) observe(q question, now int64) {
	if f.time.Outdated(q.Question) {
		return
	}
	local := f.clock.Now()
	if local.Sub(q.at) > time.Second {
		local = q.at
	}
	offset := now - f.monotonic(local)
	_, back := f.time.Answer(q.Question, now)
	if back || offset > f.offset || local.Sub(f.offsetAt) > 10*time.Second || q.Floor == 0 {
		f.offset, f.offsetAt = offset, local
	}
	if back {
		f.hintAll()
	}
}

// now returns about what the database's clock shows.
func (f *Frame) now() int64 {
	return max(f.time.Ask().Floor, f.monotonic(f.clock.Now())+f.offset)
}

// monotonic returns a time in milliseconds since the frame was made, by the monotonic reading
// of the clock if it has one: a wall clock that is set does not change it.
func (f *Frame) monotonic(t time.Time) int64 { return t.Sub(f.made).Milliseconds() }

// token returns a new token for a lease.
func (f *Frame) token() string {
	var b [16]byte
	copy(b[:8], f.tokenPrefix[:])
	binary.BigEndian.PutUint64(b[8:], f.tokenCount.Add(1))
	return base64.RawURLEncoding.EncodeToString(b[:])
}
