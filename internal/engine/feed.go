package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Limits of the feed.
const (
	// FeedChanges and FeedBytes are how many changes are kept for readers who are not
	// there yet, and about how much memory they may take.
	FeedChanges = 16_384
	FeedBytes   = 8 << 20

	// feedBatch is how many changes are looked up before readers learn of them, and how
	// many a reader takes at a time.
	feedBatch = 64

	// feedAgain is how long after a commit whose outcome is unknown, at least, the records
	// are looked at once more: by then it is settled.
	feedAgain = 10 * time.Second

	// feedPause is how long to wait after a look that failed.
	feedPause = time.Second
)

// ErrMissed means that a reader has missed changes.
var ErrMissed = errors.New("changes were missed")

// Change says that an instance has changed, and what is true of it since.
type Change struct {
	// Cursor is what to go on after.
	Cursor string

	Ref      Ref
	Name     string
	Version  string
	Status   Status
	Revision int64

	// At is when it was committed, by the clock of this process.
	At time.Time

	// Deleted: it is gone. Nothing but Ref, At and Cursor is known.
	Deleted bool
}

// feed wraps the store that the engine works on, and tells readers which instances were changed by what is
// committed through it.
//
// An instance goes through three stages: marked (a commit has touched it), looked up (a reader has read its
// record), and in the ring (a numbered change, which every reader that has come in time gets). A mark is in
// one queue; the ring is bounded, and a reader that falls behind it gets ErrMissed and lists again.
//
// A commit only notes which instances it has changed; a reader that has nothing else to
// do looks at their records, and tells all. So what is told is what was found in the
// store, in an order that is true for each instance although commits come back in any; a
// commit whose outcome is unknown is looked at like any other, and once more when it must
// be settled; an instance that changes faster than readers read is told of less often;
// commits wait for nobody; and nothing runs while nobody reads.
type feed struct {
	store.Store

	clock   base.Clock
	epoch   string // of the cursors: no other feed has it
	changes int    // FeedChanges, and fewer in tests
	bytes   int

	on   atomic.Bool   // there may be readers, or some that come back
	work chan struct{} // holds one when there are marks to look at and nobody does

	// The lock is held for moments only, and while nothing else is called.
	mu      sync.Mutex
	ended   error         // why there is nothing more to read
	news    chan struct{} // closed when there is something to read
	readers int
	looking bool // somebody looks at marks

	ring ring

	marks  uint64 // that were made
	marked marks  // what to look at
	since  uint64 // how many marks there were when the latest reader without a cursor came

	doubts [2]doubts   // what to look at once more: later, and when again calls
	again  func() bool // stops the call
}

var _ store.Store = (*feed)(nil)

func newFeed(s store.Store, clock base.Clock) *feed {
	return &feed{
		Store: s, clock: clock, epoch: rand.Text(), changes: FeedChanges, bytes: FeedBytes,
		work: make(chan struct{}, 1), news: make(chan struct{}), ring: ring{first: 1},
	}
}

// Commit commits, and notes which instances that has changed.
func (f *feed) Commit(ctx context.Context, tx *store.Tx) error {
	err := f.Store.Commit(ctx, tx)
	if f.on.Load() {
		f.note(tx, err)
	}
	return err
}

// note notes what a commit with that outcome has changed, or may have.
func (f *feed) note(tx *store.Tx, err error) {
	unknown := err != nil && !unchanged(err)
	if err != nil && !unknown {
		return
	}
	var refs []touched
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		if key := p.Record.Key; key.Kind == kindInstance {
			refs = append(refs, touched{Ref{Tenant: key.Tenant, ID: key.ID}, unknown && p.Expect == 0})
		}
	}
	for i := range tx.DeleteRecords {
		if key := tx.DeleteRecords[i].Key; key.Kind == kindInstance {
			refs = append(refs, touched{Ref{Tenant: key.Tenant, ID: key.ID}, false})
		}
	}
	if len(refs) == 0 {
		return
	}
	now := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mark(now, refs)
	if unknown {
		f.doubt(refs)
	}
}

// touched is an instance that a commit has changed, or may have.
type touched struct {
	Ref
	unborn bool // it was to be started, and perhaps was not
}

// unchanged reports whether it is known after an error that nothing was committed.
func unchanged(err error) bool {
	return slices.ContainsFunc([]error{store.ErrConflict, store.ErrClaimLost, store.ErrInvalid, store.ErrFull, store.ErrClosed},
		func(known error) bool { return errors.Is(err, known) })
}

// mark has instances looked at. The lock is held.
func (f *feed) mark(at time.Time, refs []touched) {
	if f.ended != nil {
		return
	}
	for _, t := range refs {
		f.marks++
		f.marked.add(t.Ref, mark{f.marks, at, t.unborn})
	}
	if len(f.marked.queue) > f.changes || f.marked.bytes > f.bytes {
		f.skip()
		return
	}
	f.requestRead()
}

// doubt has instances looked at once more later. The lock is held.
func (f *feed) doubt(refs []touched) {
	if f.ended != nil {
		return
	}
	f.doubts[0].add(refs, f.changes)
	if f.again == nil {
		f.again = f.clock.AfterFunc(feedAgain, f.settle)
	}
}

// settle looks at what has been in doubt for long enough.
func (f *feed) settle() {
	now := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return
	}
	due := f.doubts[1]
	f.doubts = [2]doubts{{}, f.doubts[0]}
	f.again = nil
	if !f.doubts[1].none() {
		f.again = f.clock.AfterFunc(feedAgain, f.settle)
	}
	if due.all {
		f.skip()
		return
	}
	refs := make([]touched, 0, len(due.refs))
	for ref, unborn := range due.refs {
		refs = append(refs, touched{ref, unborn})
	}
	f.mark(now, refs)
}

// requestRead has a reader read the marked instances, unless one does. The lock is held.
func (f *feed) requestRead() {
	if f.looking || len(f.marked.queue) == 0 {
		return
	}
	select {
	case f.work <- struct{}{}:
	default:
	}
}

// skip drops the marks: there are too many. All readers have missed changes; without readers,
// marking stops until the next one subscribes. The lock is held.
func (f *feed) skip() {
	f.marked = marks{}
	f.ring.skip()
	f.on.Store(f.readers > 0)
	f.wakeReaders()
}

// wakeReaders wakes all readers. The lock is held.
func (f *feed) wakeReaders() {
	close(f.news)
	f.news = make(chan struct{})
}

// end ends all readers with an error, and remembers nothing any more.
func (f *feed) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return
	}
	f.ended = why
	f.on.Store(false)
	if f.again != nil {
		f.again()
	}
	f.marked, f.doubts, f.again = marks{}, [2]doubts{}, nil
	f.ring.skip()
	f.wakeReaders()
}

// doubts are instances of which it is not known whether they have changed: all of them,
// if they are too many to keep.
type doubts struct {
	refs map[Ref]bool // whether it may not have been started
	all  bool
}

func (d *doubts) add(refs []touched, limit int) {
	if d.refs == nil {
		d.refs = map[Ref]bool{}
	}
	for _, t := range refs {
		before, there := d.refs[t.Ref]
		d.refs[t.Ref] = t.unborn && (before || !there)
	}
	if d.all = d.all || len(d.refs) > limit; d.all {
		d.refs = nil
	}
}

func (d *doubts) none() bool { return !d.all && len(d.refs) == 0 }

// mark is when an instance was marked.
type mark struct {
	number uint64
	at     time.Time
	unborn bool // if it is not there, it may never have been
}

// marks are instances to look at, in the order in which they were first marked.
type marks struct {
	last  map[Ref]mark
	queue []Ref
	bytes int
}

func (m *marks) add(ref Ref, at mark) {
	if m.last == nil {
		m.last = map[Ref]mark{}
	}
	before, there := m.last[ref]
	if !there {
		m.queue = append(m.queue, ref)
		m.bytes += refBytes(ref)
		before = at
	}
	at.unborn = at.unborn && before.unborn
	if at.number < before.number {
		at.number, at.at = before.number, before.at
	}
	m.last[ref] = at
}

// take removes the first n.
func (m *marks) take(n int) []marked {
	taken := make([]marked, 0, min(n, len(m.queue)))
	for _, ref := range m.queue[:cap(taken)] {
		taken = append(taken, marked{ref, m.last[ref]})
		delete(m.last, ref)
		m.bytes -= refBytes(ref)
	}
	m.queue = m.queue[len(taken):]
	if len(m.queue) == 0 {
		*m = marks{}
	}
	return taken
}

// marked is an instance that is marked.
type marked struct {
	Ref
	mark
}

// refBytes is about how much memory a mark takes.
func refBytes(ref Ref) int { return 160 + len(ref.Tenant) + len(ref.ID) }

// told is a change in the ring.
type told struct {
	Change
	run  uint64 // of the execution: one that was deleted and started again has another
	mark uint64 // the number of its mark

	// known is the mark up to which the same was told before: it is for those only who
	// have come since.
	known uint64

	unborn bool // if it is deleted, it may never have been there
}

func (t *told) size() int {
	return 400 + 2*len(t.Ref.Tenant) + 2*len(t.Ref.ID) + len(t.Name) + len(t.Version) + len(t.Cursor)
}

// same reports whether both say the same of an instance.
func (t *told) same(other *told) bool {
	return t.Deleted == other.Deleted && t.Revision == other.Revision && t.run == other.run
}

// ring holds the latest changes. They are numbered without a gap from first on.
type ring struct {
	first uint64
	list  []told
	last  map[Ref]uint64 // the number of the latest of each instance
	bytes int
}

// next is the number of the next change.
func (r *ring) next() uint64 { return r.first + uint64(len(r.list)) }

// latest returns what was told of an instance last, or nil.
func (r *ring) latest(ref Ref) *told {
	n, ok := r.last[ref]
	if !ok {
		return nil
	}
	return &r.list[n-r.first]
}

// add adds a change, and drops the oldest ones if there are too many.
func (r *ring) add(t told, changes, bytes int) {
	if r.last == nil {
		r.last = map[Ref]uint64{}
	}
	r.last[t.Ref] = r.next()
	r.list = append(r.list, t)
	r.bytes += t.size()
	for len(r.list) > changes || r.bytes > bytes {
		old := &r.list[0]
		if r.last[old.Ref] == r.first {
			delete(r.last, old.Ref)
		}
		r.bytes -= old.size()
		*old = told{} // and what it holds
		r.list = r.list[1:]
		r.first++
	}
}

// skip drops all, and one more that never was: who waits for the next change has missed
// something as well.
func (r *ring) skip() { *r = ring{first: r.next() + 1} }

// cursor returns the cursor of a change.
func (f *feed) cursor(number uint64) string {
	return f.epoch + "-" + strconv.FormatUint(number, 36)
}
