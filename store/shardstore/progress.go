package shardstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Progress is how far a move has come.
type Progress struct {
	Unit     Unit
	From, To string
	Stage    Stage

	// Done is how many keys and records the stage has dealt with in this round, and Of how many
	// there are.
	Round, Done, Of int

	// Closed is how long the unit was closed, once it is not any more.
	Closed time.Duration
}

// A mover writes its progress to a record on the source every beatEvery, whether there is any or not. So
// the record shows other processes how far the move has come, and that its mover lives: if the version of
// the record does not change for lostAfter while the unit is closed, any process opens the unit again.
const (
	beatEvery = time.Second
	lostAfter = 5 * time.Second
)

// progressKey names the record. Its name is the ID of the mover, its status the stage, and its time that
// of the mover's clock.
var progressKey = store.RecordKey{Kind: store.KindShards, ID: "progress"}

// progressFormat is the version of the record's body, which is JSON: see docs/format.md.
const progressFormat = 1

// storedProgress is the body of the record.
type storedProgress struct {
	Format int `json:"format"`
	Round  int `json:"round"`
	Done   int `json:"done"`
	Of     int `json:"of"`
}

// tell reports the progress.
func (m *mover) tell() {
	m.publish()
	if m.report != nil {
		m.report(m.progress)
	}
}

// publish makes the progress that which is written next.
func (m *mover) publish() { m.published.Store(new(m.progress)) }

// beats writes the progress until stop is called.
func (m *mover) beats(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for ctx.Err() == nil {
			if err := m.beat(ctx); err != nil && ctx.Err() == nil {
				m.s.log.Warn("progress of a move not written", "unit", m.move.Unit.String(), "error", err)
			}
			_ = base.Sleep(ctx, m.s.clock, beatEvery)
		}
	})
	return func() {
		cancel()
		beating.Wait()
	}
}

// beat writes the progress once.
func (m *mover) beat(ctx context.Context) error {
	ctx, cancel := withLimit(ctx, m.s.clock, callLimit)
	defer cancel(nil)
	p := m.published.Load()
	body, err := json.Marshal(storedProgress{progressFormat, p.Round, p.Done, p.Of})
	if err != nil {
		return err
	}
	err = m.source.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Record: store.Record{Key: progressKey, Status: string(p.Stage), Name: m.id, Time: m.s.clock.Now(), Body: body}, Expect: store.AnyVersion,
	}}})
	if errors.Is(err, store.ErrFenced) {
		m.s.fenced(m.from)
	}
	return err
}

// readProgress returns the record that the mover of a move writes; none if there is none yet.
func (s *Store) readProgress(ctx context.Context, move *Move) (store.Record, error) {
	sh := s.byName[move.From]
	if sh == nil {
		return store.Record{}, fmt.Errorf("shardstore: shard %q is not configured", move.From)
	}
	r, err := bounded(ctx, sh, func(ctx context.Context, st store.Store) (store.Record, error) { return st.Get(ctx, progressKey) })
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Name != move.ID {
		return store.Record{}, nil
	}
	return r, err
}

// reopenAfter is how long a unit is closed at most: then any process opens it again, whether its mover
// lives or not. The mover itself gives up earlier: see closedLimit.
const reopenAfter = 30 * time.Second

// reopenLater opens the unit of a move again if its mover has died, unless the directory changes before.
func (s *Store) reopenLater(closed *Directory) {
	s.spawn(func() {
		if s.awaitLost(closed) {
			s.reopen(closed.Version)
		}
	})
}

// awaitLost waits until the mover that has closed a unit has died, or keeps it closed for too long. It
// returns false if the directory changes, or the store is closed.
func (s *Store) awaitLost(closed *Directory) bool {
	begun := s.clock.Now()
	beaten, version := begun, int64(-1)
	for s.clock.Now().Sub(begun) < reopenAfter {
		if base.Sleep(s.background, s.clock, beatEvery) != nil {
			return false
		}
		err := s.readHome() // the mover may have died before it told anybody of the next version
		if s.Directory().Version != closed.Version {
			return false
		}
		var r store.Record
		if err == nil {
			r, err = s.readProgress(s.background, closed.Move)
		}
		switch {
		case err != nil: // the mover may write what this process cannot read
			beaten = s.clock.Now()
		case r.Version != version:
			beaten, version = s.clock.Now(), r.Version
		case s.clock.Now().Sub(beaten) >= lostAfter:
			return true
		}
	}
	return s.Directory().Version == closed.Version
}

// readHome goes by the directory of the home shard, if it is later.
func (s *Store) readHome() error {
	home, err := s.home()
	if err == nil {
		_, err = home.use()
	}
	if err != nil {
		return err
	}
	return s.limited(func(ctx context.Context) error { return s.catchUp(ctx, home) })
}

// reopen opens the unit that is closed by a version of the directory, if that is still the latest.
func (s *Store) reopen(version int64) {
	_, err := s.changeDirectory(s.background, func(d *Directory) error {
		if d.Version != version+1 || d.Move == nil || d.Move.Stage != Closed {
			return errStale
		}
		d.Move.Stage = Copying
		return nil
	})
	if err == nil {
		s.log.Warn("move did not finish, unit opened again", "version", version)
	}
}
