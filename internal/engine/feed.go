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

// Change is a change of an instance, with its state after it.
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

// feed wraps the store that the engine works on, and publishes which instances were changed by the commits
// that are made through it.
//
// An instance goes through three stages: marked (a commit has touched it), looked up (a reader has read its
// record), and in the ring (a numbered change, which every reader that has come in time gets). A mark is in
// one queue; the ring is bounded, and a reader that falls behind it gets ErrMissed and lists again.
//
// A commit only marks the instances that it has changed; an idle reader reads their records and
// publishes them to all. This has several consequences:
//
//   - A change has the state that was found in the store. For each instance changes are in the
//     order of its revisions, although commits return in any order.
//   - A commit whose outcome is unknown is marked like any other, and once more when its outcome
//     must be settled.
//   - An instance that changes faster than readers read has fewer changes than commits.
//   - Commits wait for no reader, and nothing runs without one.
type feed struct {
	store.Store

	clock    base.Clock
	siblings *siblings       // the engines on this store
	puts     func(*store.Tx) // is called before each commit, if not nil
	gates    *gateCommits    // takes commits that enter or leave gates, if not nil

	// unserved asks the engine of the feed to look for what no worker serves.
	unserved chan struct{}

	// epoch is the first part of the cursors of this feed, different for each.
	epoch string

	// changes and bytes bound the ring: FeedChanges and FeedBytes, and less in tests.
	changes int
	bytes   int

	// on is true while commits are marked: from the first reader until the marks overflow without
	// one, so that a reader that comes back after its cursor misses nothing.
	on atomic.Bool

	// work has an element if there are marks and no reader reads them.
	work chan struct{}

	// mu guards the fields below. It is never held during a call of the store or of a reader.
	mu sync.Mutex

	ended   error         // the error of all readers, once it is set
	news    chan struct{} // closed and replaced when the ring grows or the feed ends
	readers int
	reading bool // a reader reads marked instances

	ring ring

	// marks counts the marks that were made, and numbers them. since is its value when the latest
	// reader without a cursor subscribed: a change that was published before is published again
	// if it was marked later.
	marks  uint64
	marked marks
	since  uint64

	// doubts are the instances to read once more: doubts[1] when again fires, doubts[0] one period
	// after that.
	doubts [2]doubts
	again  func() bool // stops the timer
}

var (
	_ store.Store     = (*feed)(nil)
	_ store.Pressured = (*feed)(nil)
)

func newFeed(s store.Store, clock base.Clock) *feed {
	return &feed{
		Store: s, clock: clock, epoch: rand.Text(), changes: FeedChanges, bytes: FeedBytes,
		work: make(chan struct{}, 1), news: make(chan struct{}), ring: ring{first: 1},
	}
}

// Commit commits, and notes which instances that has changed.
func (f *feed) Commit(ctx context.Context, tx *store.Tx) error {
	if f.puts != nil {
		f.puts(tx)
	}
	commit := f.Store.Commit
	if f.gates != nil && slices.ContainsFunc(tx.Put, func(m store.Message) bool { return m.Key.Queue == queueLimits }) {
		commit = f.gates.commit
	}
	err := commit(ctx, tx)
	if f.on.Load() {
		f.note(tx, err)
	}
	return err
}

// Pressure is that of the store.
func (f *feed) Pressure() float64 { return store.Pressure(f.Store) }

// note marks the instances that a commit with that outcome has changed, or may have changed.
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

// mark queues instances to be read. The lock is held.
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

// doubt queues instances to be read once more later, because the outcome of their commit is unknown.
// The lock is held.
func (f *feed) doubt(refs []touched) {
	if f.ended != nil {
		return
	}
	f.doubts[0].add(refs, f.changes)
	if f.again == nil {
		f.again = f.clock.AfterFunc(feedAgain, f.settle)
	}
}

// settle marks the instances whose commit must have been settled by now.
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
	if f.reading || len(f.marked.queue) == 0 {
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

// end ends all readers with an error, and drops the marks and the ring.
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

// doubts are instances with a commit of unknown outcome. If they are too many to keep, all instances
// are in doubt, and readers miss changes.
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

// mark is the mark of an instance.
type mark struct {
	number uint64    // by feed.marks
	at     time.Time // of the commit, by the clock of this process
	unborn bool      // the instance may never have existed
}

// marks is the queue of instances to read, in the order of their first mark. An instance is in it
// once, with the number of its latest mark.
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

// published is a change in the ring.
type published struct {
	Change
	run  uint64 // of the execution: one that was deleted and started again has another
	mark uint64 // the number of its mark

	// known is the mark up to which the same state was published before: the change is only for
	// readers that subscribed since.
	known uint64

	// unborn is true if the instance may never have existed: its deletion is published only if
	// something else was published of it before.
	unborn bool
}

func (t *published) size() int {
	return 400 + 2*len(t.Ref.Tenant) + 2*len(t.Ref.ID) + len(t.Name) + len(t.Version) + len(t.Cursor)
}

// same reports whether both are the same state of the same execution.
func (t *published) same(other *published) bool {
	return t.Deleted == other.Deleted && t.Revision == other.Revision && t.run == other.run
}

// ring holds the latest changes. They are numbered without a gap from first on.
type ring struct {
	first uint64
	list  []published
	last  map[Ref]uint64 // the number of the latest of each instance
	bytes int
}

// next is the number of the next change.
func (r *ring) next() uint64 { return r.first + uint64(len(r.list)) }

// latest returns the latest change of an instance in the ring, or nil.
func (r *ring) latest(ref Ref) *published {
	n, ok := r.last[ref]
	if !ok {
		return nil
	}
	return &r.list[n-r.first]
}

// add adds a change, and drops the oldest ones if there are too many.
func (r *ring) add(t published, changes, bytes int) {
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
		*old = published{} // and what it holds
		r.list = r.list[1:]
		r.first++
	}
}

// skip drops all changes, and leaves a gap of one number: a reader that waits for the next change has
// missed some as well, and finds its number gone.
func (r *ring) skip() { *r = ring{first: r.next() + 1} }

// cursor returns the cursor of a change.
func (f *feed) cursor(number uint64) string {
	return f.epoch + "-" + strconv.FormatUint(number, 36)
}
