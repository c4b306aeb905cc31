package pgstore

import (
	"context"
	"sync"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Store is a store in a schema of a PostgreSQL database. Any number of processes may have
// it open.
type Store struct {
	*rows.Core
	db *database

	cancel context.CancelFunc
	tasks  sync.WaitGroup // what runs until the store is closed

	mu       sync.Mutex
	excluded int // how often Exclude was called and not released
}

var _ store.Portable = (*Store)(nil)

// begin starts what runs until the store is closed.
func (s *Store) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.tasks.Go(func() { s.db.heartbeats(ctx) })
	s.tasks.Go(func() { s.db.keepTidy(ctx) })
	s.tasks.Go(func() { s.db.meet(ctx) })
	if s.db.config.servers != nil {
		s.tasks.Go(func() { s.db.watch(ctx) })
	}
	if s.db.config.notify {
		s.tasks.Go(func() { s.listen(ctx) })
		s.tasks.Go(func() { s.db.announcer.run(ctx) })
	}
}

// failed returns the error of a read: of the store that was closed meanwhile, if it was.
func (s *Store) failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	if closed := s.Check(context.Background(), verb); closed != nil {
		return closed
	}
	return failed(verb, err)
}

// Close ends waiting calls, waits for commits under way, and closes the connections.
func (s *Store) Close() error {
	if !s.CloseCore() {
		return nil
	}
	s.cancel()
	s.tasks.Wait()
	err := s.db.leave()
	s.db.close()
	return err
}

// pause returns how long to wait before a connection is tried again.
func (d *database) pause() *backoff.Pause {
	return &backoff.Pause{Clock: d.machine, Min: reconnectLeast, Max: reconnectMost}
}
