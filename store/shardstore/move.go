package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// A move brings a unit, a tenant or a slot, from one shard to another while everything runs. One move
// is under way at a time. The directory says which, and how far it has come:
//
//	      begin            close              switch             end
//	none ──────▶ Copying ─────────▶ Closed ─────────▶ Cleaning ──────▶ none
//	               ▲                  │
//	               └──── reopen ──────┘
//
// Each arrow is a change of the directory: a conditional put on the home shard, then on all others. In
// words:
//
//   - Copying. The unit is on the source, and its users notice nothing. The mover copies what there is,
//     then what has changed since, until little has. Messages that are visible soon, and leases, are
//     not copied yet, so that there is nothing to claim on the target.
//   - Closed. A process that goes by this directory commits nothing to the unit: calls wait. The mover
//     waits until every process has acknowledged it (store.Movable.Settle on the source), copies what
//     has changed for the last time, with what was held back, and compares both sides.
//   - Cleaning. The unit is on the target, and open. When every process knows that, what is left on
//     the source is removed.
//
// # Why nothing is lost or doubled
//
// A commit to the unit on the source comes before the last copy, or is refused. Before it acknowledges
// Closed, a process waits for its own changes that go by an earlier directory. One that was suspended,
// and counts as dead, is refused by the source itself (store.ErrFenced), since its acknowledgement is
// gone; it reads the directory before it goes on. One that is opened reads the directory of the source
// first, which has Closed before the mover waits. Settle also waits for commits under way, so that none
// appears after the last copy.
//
// A commit to the unit on the target comes after the switch, since nobody goes there before.
//
// The switch is one conditional put, so that it happens once or not at all. What a claim delivered
// before the move is finished by its holder after it: leases are moved too, with their tokens.
//
// # Crashes
//
//   - The mover dies while Copying: nothing happened. Who moves the unit next begins the copy again.
//   - The mover dies while Closed: it does not write its progress any more, and after lostAfter any
//     process puts Copying. A mover that was merely slow then cannot switch, as its put is
//     conditional, and copies again what has changed.
//   - The mover dies while Cleaning: who moves next, anything, cleans first.
//   - Two movers: the second one takes over. It puts its ID to the directory, and raises the version of
//     a record on source and target that each of the first one's writes is conditional on
//     (store.Guard). The first one ends with an error.
//   - A shard dies: the mover ends with an error, and the rules above apply.
const (
	// closedLimit is how long the mover keeps a unit closed. It is less than reopenAfter by more
	// than a call takes.
	closedLimit = 15 * time.Second

	// settleLimit is how long the mover waits for acknowledgements while a unit is closed. All
	// processes have acknowledged the directory before, so that those that are alive do it at once.
	settleLimit = 4 * time.Second

	// readyLimit is how long it waits before that: a process that died is missed after a minute.
	readyLimit = 2 * time.Minute

	// horizon is how far ahead a message must be visible to be copied before the unit is closed.
	horizon = 2 * time.Minute

	// firstBatch is how many keys and records are copied at once in the beginning, and mostBatch how
	// many at most: as many as take less than batchTime.
	firstBatch = 100
	mostBatch  = 1000
	batchTime  = 500 * time.Millisecond

	// fewChanges is how many changed things are left for when the unit is closed, and mostRounds
	// after how many rounds it is closed in any case.
	fewChanges = 1000
	mostRounds = 12

	// closeTries is how often the unit is closed if it could not be switched in time.
	closeTries = 10
)

// moverKey names the record whose version guards what a mover writes.
var moverKey = store.RecordKey{Kind: store.KindShards, ID: "mover"}

// ErrMove is the error of a move that cannot begin because another one is under way.
var ErrMove = errors.New("another move is under way")

// Move moves a unit to a shard, or goes on with a move of the same unit to the same shard that was
// interrupted. It returns [ErrMove] if another move was, which [Store.Resume] finishes, and
// [store.ErrInvalid] if a shard is not in the directory or cannot be moved from or to. Report, if it
// is not nil, is called now and then.
func (s *Store) Move(ctx context.Context, u Unit, to string, report func(Progress)) error {
	if u.Slot >= Slots {
		return fmt.Errorf("shardstore: move: there is no slot %d, 0 to %d are: %w", u.Slot, Slots-1, store.ErrInvalid)
	}
	m := &mover{s: s, id: base.NewUUID(s.clock.Now()), report: report, batch: firstBatch}
	d, err := s.changeDirectory(ctx, func(d *Directory) error { return m.begin(d, u, to) })
	if errors.Is(err, errDone) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.run(ctx, d)
}

// Resume goes on with a move that was interrupted, if there is one.
func (s *Store) Resume(ctx context.Context, report func(Progress)) error {
	d := s.Directory()
	if d.Move == nil {
		return nil
	}
	return s.Move(ctx, d.Move.Unit, d.Move.To, report)
}

// errDone is the error of a move that is not needed.
var errDone = errors.New("it is there already")

// mover is a move under way in this process.
type mover struct {
	s      *Store
	id     string
	report func(Progress)

	move     Move
	from, to *shard
	source   store.Movable
	target   store.Movable

	// The guards of what is written to the source and the target.
	onSource, onTarget store.Guard

	// copied is what the target has, with the revisions on both sides.
	copied map[store.Thing]*copied

	// closedAt is when the unit was closed.
	closedAt time.Time
	batch    int // how many things are copied at once
	progress Progress

	published atomic.Pointer[Progress] // what is written to the source
}

// copied is a thing that was copied.
type copied struct {
	source, target string // revisions
	partial        bool   // something of it was held back
}

// begin is the first change of the directory: it begins the move, or takes it over.
func (m *mover) begin(d *Directory, u Unit, to string) error {
	if !slices.Contains(d.Shards, to) {
		return fmt.Errorf("shardstore: move: shard %q is not in the directory, which has %v: %w", to, d.Shards, store.ErrInvalid)
	}
	switch under := d.Move; {
	case under == nil && d.on(u) == to:
		return errDone
	case under == nil:
		d.Move = &Move{Unit: u, From: d.on(u), To: to, Stage: Copying}
	case under.Unit != u || under.To != to:
		return fmt.Errorf("shardstore: move: %v is being moved from %s to %s; finish that first: %w", under.Unit, under.From, under.To, ErrMove)
	case under.Stage == Closed: // its mover died, and what it copied is not known
		d.Move.Stage = Copying
	}
	d.Move.ID = m.id
	return m.connect(d.Move)
}

// connect finds the shards.
func (m *mover) connect(move *Move) (err error) {
	m.move = *move
	if m.from, m.source, err = m.s.movable(move.From); err != nil {
		return err
	}
	m.to, m.target, err = m.s.movable(move.To)
	return err
}

// movable returns a shard whose tenants can be moved.
func (s *Store) movable(name string) (*shard, store.Movable, error) {
	sh := s.byName[name]
	if sh == nil {
		return nil, nil, fmt.Errorf("shardstore: move: shard %q is not configured: %w", name, store.ErrInvalid)
	}
	st, err := sh.use()
	if err != nil {
		return nil, nil, err
	}
	m, ok := st.(store.Movable)
	if !ok {
		return nil, nil, fmt.Errorf("shardstore: move: tenants cannot be moved from or to stores of the kind of shard %s: %w", name, store.ErrInvalid)
	}
	return sh, m, nil
}

// run does what is left of the move.
func (m *mover) run(ctx context.Context, d *Directory) (err error) {
	if m.onSource, err = takeGuard(ctx, m.source, m.id); err != nil {
		return m.from.failed(err)
	}
	if m.onTarget, err = takeGuard(ctx, m.target, m.id); err != nil {
		return m.to.failed(err)
	}
	m.progress = Progress{Unit: m.move.Unit, From: m.move.From, To: m.move.To, Stage: d.Move.Stage}
	m.publish()
	defer m.beats(ctx)()
	if d.Move.Stage == Copying {
		if err := m.copyAndSwitch(ctx); err != nil {
			return err
		}
	}
	return m.clean(ctx)
}

// takeGuard raises the version of the record that guards the writes of movers to a shard.
func takeGuard(ctx context.Context, st store.Store, id string) (store.Guard, error) {
	for {
		r, err := st.Get(ctx, moverKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Guard{}, err
		}
		version := r.Version
		err = st.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
			Record: store.Record{Key: moverKey, Status: "mover", Name: id}, Expect: version,
		}}})
		if err == nil {
			return store.Guard{Record: moverKey, Version: version + 1}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return store.Guard{}, err
		}
	}
}

// step makes a change of the directory, unless another mover has taken over or the move has been opened
// again.
func (m *mover) step(ctx context.Context, from Stage, f func(d *Directory)) (*Directory, error) {
	return m.s.changeDirectory(ctx, func(d *Directory) error {
		if d.Move == nil || d.Move.ID != m.id {
			return fmt.Errorf("shardstore: move: %v is moved by another process: %w", m.move.Unit, errStale)
		}
		if d.Move.Stage != from {
			return fmt.Errorf("shardstore: move: %v was opened again by another process: %w: %w", m.move.Unit, errLate, errStale)
		}
		f(d)
		return nil
	})
}

// copyAndSwitch copies the unit, closes it, copies the rest and puts it on the target.
func (m *mover) copyAndSwitch(ctx context.Context) error {
	if err := m.wipe(ctx); err != nil {
		return err
	}
	var last error
	for range closeTries {
		if err := m.rounds(ctx); err != nil {
			return err
		}
		if last = m.closeAndSwitch(ctx); last == nil || ctx.Err() != nil || !errors.Is(last, errLate) {
			return last
		}
		m.s.log.Warn("unit not switched in time, opened again", "unit", m.move.Unit.String(), "error", last)
	}
	return last
}

// errLate is the error of a unit that was opened again since it was closed for too long.
var errLate = errors.New("it would be closed for too long")

// closeAndSwitch closes the unit, copies what is left and puts the unit on the target. If that does not
// work, or takes too long, the unit is opened again.
func (m *mover) closeAndSwitch(ctx context.Context) (err error) {
	if err := m.settle(ctx, m.s.Directory().Version, readyLimit); err != nil {
		return fmt.Errorf("shardstore: move: wait until all processes of shard %s know of the move: %w", m.from.name, err)
	}
	d, err := m.step(ctx, Copying, func(d *Directory) { d.Move.Stage = Closed })
	m.closedAt = m.s.clock.Now()
	m.progress.Stage = Closed
	m.publish()
	if err == nil {
		err = m.lastCopy(ctx, d.Version)
	}
	if err == nil {
		_, err = m.step(ctx, Closed, func(d *Directory) {
			d.assign(m.move.Unit, m.move.To)
			d.Move.Stage = Cleaning
		})
	}
	if err == nil {
		m.progress.Closed = m.s.clock.Now().Sub(m.closedAt)
		return nil
	}
	return errors.Join(err, m.reopen(ctx))
}

// lastCopy copies what has changed while nobody can change anything.
func (m *mover) lastCopy(ctx context.Context, version int64) error {
	short, cancel := withLimit(ctx, m.s.clock, closedLimit)
	defer cancel(nil)
	err := m.settle(short, version, settleLimit)
	// A store changes some things by itself: it ends leases, and moves what expires to quarantine. So
	// the copy is the last one when nothing has changed on the source while it was made.
	for again := true; err == nil && again; again = m.progress.Of > 0 {
		err = m.round(short, true)
	}
	if err == nil {
		err = m.compare(short)
	}
	if err != nil && ctx.Err() == nil && (errors.Is(err, context.Canceled) || short.Err() != nil) {
		return fmt.Errorf("%w: %w", errLate, err)
	}
	return err
}

// settle waits until all processes of the source have acknowledged a version.
func (m *mover) settle(ctx context.Context, version int64, limit time.Duration) error {
	short, cancel := withLimit(ctx, m.s.clock, limit)
	defer cancel(nil)
	return m.source.Settle(short, version)
}

// reopen opens the unit again after a failure. If that fails too, another process does it later.
func (m *mover) reopen(ctx context.Context) error {
	ctx, cancel := withLimit(context.WithoutCancel(ctx), m.s.clock, callLimit)
	defer cancel(nil)
	_, err := m.step(ctx, Closed, func(d *Directory) { d.Move.Stage = Copying })
	m.progress.Stage = Copying
	m.publish()
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}

// clean removes what is left of the unit on the source, and ends the move. It waits until every process
// knows that the unit is elsewhere, so that none reads what is being removed.
func (m *mover) clean(ctx context.Context) error {
	m.progress.Stage, m.progress.Done, m.progress.Of = Cleaning, 0, 0
	m.publish()
	if err := m.settle(ctx, m.s.Directory().Version, readyLimit); err != nil {
		return fmt.Errorf("shardstore: move: wait until all processes of shard %s know where the unit is: %w", m.from.name, err)
	}
	if err := m.remove(ctx, m.from, m.source, m.onSource); err != nil {
		return err
	}
	_, err := m.step(ctx, Cleaning, func(d *Directory) { d.Move = nil })
	m.tell()
	return err
}
