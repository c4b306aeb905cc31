package shardstore

import (
	"context"
	"math"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// A process acknowledges the directory that it goes by: see [store.Movable]. It does so when every change
// that went by an earlier one has ended, on the shard from which something is being moved: nobody
// waits for acknowledgements on the others. A shard on which it has not acknowledged anything is not used.

// join acknowledges the directory on a shard that was opened, and lets it be used. Nothing was changed
// on it before by this process.
func (s *Store) join(ctx context.Context, sh *shard) error {
	if err := s.catchUp(ctx, sh); err != nil {
		return err
	}
	version := s.Directory().Version
	if err := s.acknowledgeOn(ctx, sh, version); err != nil {
		return err
	}
	sh.setReady()
	return nil
}

// catchUp goes by the directory of a shard, if it is later.
func (s *Store) catchUp(ctx context.Context, sh *shard) error {
	d, _, err := s.readDirectory(ctx, sh.opened())
	if err != nil || d == nil {
		return err
	}
	if err := sameStore(sh, d, s.Directory()); err != nil {
		return err
	}
	s.adopt(d)
	return nil
}

// acknowledgeOn acknowledges a version on a shard. A process that commits nothing to tenants acknowledges
// every version in advance.
func (s *Store) acknowledgeOn(ctx context.Context, sh *shard, version int64) error {
	if s.mover {
		version = math.MaxInt64
	}
	if m, ok := sh.opened().(store.Movable); ok {
		if err := m.Acknowledge(ctx, version); err != nil {
			return err
		}
	}
	sh.setAcked(version)
	return nil
}

// fenced notes that a shard has refused a change, since it takes the process for dead. The process
// joins it again.
func (s *Store) fenced(sh *shard) {
	sh.setAcked(0)
	s.wakeAcknowledger()
}

// rejoin is fenced, and waits until the shard was joined again.
func (s *Store) rejoin(ctx context.Context, sh *shard) error {
	ctx, cancel := withLimit(ctx, s.clock, callLimit)
	defer cancel(nil)
	news := s.news()
	s.fenced(sh)
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) wakeAcknowledger() {
	select {
	case s.acking <- struct{}{}:
	default:
	}
}

// acknowledger acknowledges each directory, until the store is closed.
func (s *Store) acknowledger() {
	const again = time.Second
	for s.background.Err() == nil {
		if s.acknowledge() {
			select {
			case <-s.acking:
			case <-s.background.Done():
			}
			continue
		}
		_ = base.Sleep(s.background, s.clock, again)
	}
}

// acknowledge acknowledges the latest directory on the source of the move under way, and on shards that have
// refused a change, if they are up, and reports whether that is done. First it reads the directory of those that have refused a change: there may be a later one.
// Then it waits until no change goes by an earlier directory. Were a shard told before that, it would
// let a change pass that it has to refuse.
func (s *Store) acknowledge() bool {
	done := true
	failed := func(sh *shard, err error) bool {
		if err != nil && s.background.Err() == nil {
			s.log.Warn("directory not acknowledged", "shard", sh.name, "error", err)
			done = false
		}
		return err != nil
	}
	for _, sh := range s.shards {
		if sh.isUp() && sh.ackedVersion() == 0 && failed(sh, s.limited(func(ctx context.Context) error { return s.catchUp(ctx, sh) })) {
			return false
		}
	}
	s.mu.Lock()
	retired, dir := s.retired, s.routing.Load().dir
	s.retired = nil
	s.mu.Unlock()
	for _, r := range retired {
		select {
		case <-r.idle:
		case <-s.background.Done():
			return true
		}
	}
	acked := false
	for _, sh := range s.shards {
		if dir.awaits(sh.name, sh.ackedVersion()) && sh.isUp() { // one that is down is seen to when it is up again
			acked = !failed(sh, s.limited(func(ctx context.Context) error { return s.acknowledgeOn(ctx, sh, dir.Version) })) || acked
		}
	}
	if acked {
		s.announce() // changes that were refused are tried again
	}
	return done
}

// awaits reports whether the directory has to be acknowledged on a shard, where a version was: 0 if none.
func (d *Directory) awaits(shard string, acked int64) bool {
	return acked == 0 || acked < d.Version && d.Move != nil && d.Move.From == shard
}

// limited makes a call that is not worth waiting for.
func (s *Store) limited(call func(ctx context.Context) error) error {
	ctx, cancel := withLimit(s.background, s.clock, callLimit)
	defer cancel(nil)
	return call(ctx)
}
