package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// Process is one of several users of a store in memory, as processes are of a database. It is
// for tests of what several processes do. Closing it leaves the store open.
type Process struct {
	*Store
	acked int64 // what it acknowledged last; 0 if nothing
}

var _ store.Movable = (*Process)(nil)

// Process returns the store as another process has it.
func (s *Store) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Process{Store: s}
	s.processes[p] = 0
	return p
}

// Dead makes the store take the process for dead, as a database does with one that was suspended
// for too long.
func (p *Process) Dead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.processes, p)
	p.acknowledged()
}

// Close removes the process from those of the store.
func (p *Process) Close() error {
	p.Dead()
	return nil
}

// fenced reports whether the store has lost what the process acknowledged. The lock is held.
func (p *Process) fenced() bool { return p != nil && p.processes[p] < p.acked }

// acknowledged wakes those who wait for processes. The lock is held.
func (s *Store) acknowledged() {
	close(s.acks)
	s.acks = make(chan struct{})
}

// Commit applies tx.
func (p *Process) Commit(ctx context.Context, tx *store.Tx) error { return p.commit(ctx, p, tx) }

// Release gives up a lease.
func (p *Process) Release(ctx context.Context, r store.Release) error {
	if err := p.check(ctx, "release"); err != nil {
		return err
	}
	return p.Store.Release(ctx, r)
}

// Renew makes leases last longer.
func (p *Process) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	if err := p.check(ctx, "renew"); err != nil {
		return nil, err
	}
	return p.Store.Renew(ctx, d, leases)
}

// check returns ErrFenced for a process that is fenced off.
func (p *Process) check(ctx context.Context, verb string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced() {
		return store.Fenced(verb)
	}
	return ctx.Err()
}

// Acknowledge notes what the process goes by.
func (p *Process) Acknowledge(ctx context.Context, version int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := p.lock("acknowledge"); err != nil {
		return err
	}
	defer p.mu.Unlock()
	p.acked = version
	p.processes[p] = version
	p.acknowledged()
	return nil
}

// Acknowledge does nothing: a store that is not used by way of [Store.Process] is of one process.
func (s *Store) Acknowledge(ctx context.Context, _ int64) error { return ctx.Err() }

// Settle waits until all processes have acknowledged a version.
func (s *Store) Settle(ctx context.Context, version int64) error {
	for {
		if _, err := s.lock("settle"); err != nil {
			return err
		}
		behind, acks := 0, s.acks
		for _, acked := range s.processes {
			if acked < version {
				behind++
			}
		}
		s.mu.Unlock()
		if behind == 0 {
			return nil
		}
		select {
		case <-acks:
		case <-ctx.Done():
			return fmt.Errorf("store: settle: %d processes have not acknowledged version %d: %w", behind, version, ctx.Err())
		}
	}
}
