package shardstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// startCopy is the directory that a shard has when a process starts.
type startCopy struct {
	dir     *Directory // nil if there is none
	version int64      // of the record
	err     error      // why it could not be read
}

// start opens the shards, reads the directory of each, and goes by the latest. If none has one, it
// makes the first.
func (s *Store) start(ctx context.Context) error {
	copies := make([]startCopy, len(s.shards))
	var reading sync.WaitGroup
	for i, sh := range s.shards {
		reading.Go(func() { copies[i] = s.readCopy(ctx, sh) })
	}
	reading.Wait()
	var latest *Directory
	var unreachable []error
	for i, c := range copies {
		if latest != nil && c.dir != nil {
			if err := sameStore(s.shards[i], c.dir, latest); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(c.err, store.ErrCorrupt), errors.Is(c.err, store.ErrFormat), errors.Is(c.err, store.ErrInvalid), errors.Is(c.err, store.ErrInUse):
			return c.err
		case c.err != nil:
			unreachable = append(unreachable, c.err)
			s.shards[i].setDown(c.err)
		case c.dir != nil && (latest == nil || c.dir.Version > latest.Version):
			latest = c.dir
		}
	}
	if latest == nil && len(unreachable) > 0 {
		return fmt.Errorf("shardstore: open: no shard that can be reached has a directory: %w", errors.Join(unreachable...))
	}
	if latest == nil {
		var err error
		if latest, err = s.found(ctx); err != nil {
			return err
		}
	}
	if err := s.known(latest); err != nil {
		return err
	}
	s.adopt(latest)
	return nil
}

// sameStore returns an error if a shard has the directory of another store.
func sameStore(sh *shard, has, latest *Directory) error {
	if has.ID == latest.ID {
		return nil
	}
	return fmt.Errorf("shardstore: shard %s is one of another store, whose shards are %s: %w", sh.name, strings.Join(has.Shards, ", "), store.ErrInvalid)
}

// readCopy opens a shard and reads its directory.
func (s *Store) readCopy(ctx context.Context, sh *shard) startCopy {
	st, err := sh.ensure(ctx)
	if err != nil {
		return startCopy{err: err}
	}
	d, version, err := s.readDirectory(ctx, st)
	return startCopy{d, version, sh.failed(err)}
}

// readDirectory returns the directory of a shard with the version of its record; nil and 0 if it has
// none.
func (s *Store) readDirectory(ctx context.Context, st store.Store) (*Directory, int64, error) {
	ctx, cancel := withLimit(ctx, s.clock, callLimit)
	defer cancel(nil)
	r, err := st.Get(ctx, store.ShardDirectory)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	d, err := s.decode(r.Body)
	return d, r.Version, err
}

// decode returns the directory in the body of a record. Most are the one that the process goes by.
func (s *Store) decode(body []byte) (*Directory, error) {
	if r := s.routing.Load(); r != nil && bytes.Equal(r.body, body) {
		return r.dir, nil
	}
	return decode(body)
}

// known returns an error if the directory names a shard that the program was not given.
func (s *Store) known(d *Directory) error {
	var missing []string
	for _, name := range d.Shards {
		if s.byName[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("shardstore: open: the directory names shards that are not configured: %s: %w", strings.Join(missing, ", "), store.ErrInvalid)
}

// found makes the first directory, on the home shard. Another process may do so at the same time:
// then its directory is the one.
func (s *Store) found(ctx context.Context) (*Directory, error) {
	var names, used []string
	for _, sh := range s.shards {
		names = append(names, sh.name)
		empty, err := isEmpty(ctx, sh)
		if err != nil {
			return nil, sh.failed(err)
		}
		if !empty {
			used = append(used, sh.name)
		}
	}
	over := names
	switch len(used) {
	case 0:
	case 1:
		over = used
	default:
		return nil, fmt.Errorf("shardstore: open: %s hold something and have no directory: at most one of the shards of a new directory may hold anything: %w", strings.Join(used, ", "), store.ErrInvalid)
	}
	d := spread(base.NewUUID(s.clock.Now()), names, over)
	home := s.byName[d.Home].opened()
	err := putDirectory(ctx, home, d, 0)
	if errors.Is(err, store.ErrConflict) {
		d, _, err = s.readDirectory(ctx, home)
	}
	if err != nil {
		return nil, s.byName[names[0]].failed(err)
	}
	for _, sh := range s.shards {
		if err := putDirectory(ctx, sh.opened(), d, 0); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, sh.failed(err)
		}
	}
	return d, nil
}

// isEmpty reports whether a shard holds nothing.
func isEmpty(ctx context.Context, sh *shard) (bool, error) {
	p, ok := sh.opened().(store.Portable)
	if !ok {
		return false, fmt.Errorf("shardstore: shard %s: a store that cannot be exported cannot be one of several shards: %w", sh.name, store.ErrInvalid)
	}
	parcel, err := p.Export(ctx, "")
	return len(parcel.Keys)+len(parcel.Entries)+len(parcel.Messages)+len(parcel.Records) == 0, err
}

// putDirectory puts a directory to a shard whose record has a version.
func putDirectory(ctx context.Context, st store.Store, d *Directory, version int64) error {
	return st.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Record: store.Record{Key: store.ShardDirectory, Status: "current", Name: "directory", Body: d.encode()},
		Expect: version,
	}}})
}

// watch keeps the process and a shard up to date with each other: it goes by a later directory as
// soon as the shard has one, and writes the latest to a shard that stays behind.
func (s *Store) watch(sh *shard) {
	pause := sh.pause()
	for s.background.Err() == nil {
		err := s.watchCopies(sh, pause.Reset)
		if s.background.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, store.ErrFenced):
			s.fenced(sh)
		case !answered(err):
			sh.setDown(err)
		}
		if pause.Sleep(s.background) != nil {
			return
		}
	}
}

// watchCopies goes by each copy of the directory that a shard has, until a call fails. It calls reached
// when the first was read.
func (s *Store) watchCopies(sh *shard, reached func()) error {
	st, err := sh.ensure(s.background)
	if err != nil {
		return err
	}
	d, version, err := s.readDirectory(s.background, st)
	if err == nil {
		reached()
	}
	for err == nil {
		if d != nil {
			if err := sameStore(sh, d, s.Directory()); err != nil {
				sh.setDown(err)
				return err
			}
			s.adopt(d)
		}
		if s.watches(sh) {
			d, version, err = s.nextCopy(sh, st, d, version)
		} else {
			d, version, err = s.laterCopy(sh, st)
		}
	}
	return err
}

const (
	// watched is on how many shards a process waits for changes of the directory: on the home, and on some
	// that are others in each process. If it waited on all, a change would cost a notification and
	// a read for each process and shard.
	watched = 3

	// lookEvery is how often, or up to a fifth more often, it reads the directory of the others.
	lookEvery = time.Minute
)

// watches reports whether the process waits for changes of the directory on a shard.
func (s *Store) watches(sh *shard) bool {
	n := len(s.shards)
	return n <= watched || sh.name == s.Directory().Home || (sh.number-s.first+n)%n < watched-1
}

// laterCopy returns the copy of the directory that a shard has after a while. If it is behind, it gets the
// latest.
func (s *Store) laterCopy(sh *shard, st store.Store) (*Directory, int64, error) {
	if err := base.Sleep(s.background, s.clock, backoff.Jitter(lookEvery, s.id, sh.number)); err != nil {
		return nil, 0, err
	}
	d, version, err := s.readDirectory(s.background, st)
	if err != nil || !s.isBehind(sh, d) {
		return d, version, err
	}
	return s.replaceCopy(st, version)
}

// replaceCopy writes the directory to a shard whose record has a version, and returns the one that it has
// then.
func (s *Store) replaceCopy(st store.Store, version int64) (*Directory, int64, error) {
	err := putDirectory(s.background, st, s.Directory(), version)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, 0, err
	}
	return s.readDirectory(s.background, st)
}

// bringAfter is how long a shard may be behind, less up to a fifth, before a process writes the directory to
// it. Who changes the directory writes it to all shards; were every process to do so too, a change
// would cost a read and a conflict for each process and shard.
const bringAfter = 2 * time.Second

// awaitedCopy is the outcome of waiting for a copy of the directory.
type awaitedCopy struct {
	record store.Record
	err    error
}

// nextCopy returns the copy of the directory that a shard has after d, whose record has a version.
func (s *Store) nextCopy(sh *shard, st store.Store, d *Directory, version int64) (*Directory, int64, error) {
	ctx, cancel := context.WithCancel(s.background)
	awaited := make(chan awaitedCopy, 1)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		r, err := st.Await(ctx, store.ShardDirectory, version)
		awaited <- awaitedCopy{r, err}
	})
	var late <-chan struct{}
	stop := func() bool { return false } // the timer of late
	defer func() { stop() }()
	for {
		news := s.news()
		switch {
		case !s.isBehind(sh, d):
			late = nil
		case late == nil:
			stop()
			late, stop = s.after(backoff.Jitter(bringAfter, s.id, sh.number))
		}
		select {
		case a := <-awaited:
			if errors.Is(a.err, store.ErrNotFound) {
				return nil, 0, nil
			}
			if a.err != nil {
				return nil, 0, a.err
			}
			next, err := s.decode(a.record.Body)
			return next, a.record.Version, err
		case <-news:
		case <-late:
			return s.replaceCopy(st, version)
		}
	}
}

// isBehind reports whether a shard, which has the directory d or none, should have a later one.
func (s *Store) isBehind(sh *shard, d *Directory) bool {
	latest := s.Directory()
	return slices.Contains(latest.Shards, sh.name) && (d == nil || d.Version < latest.Version)
}

// after returns a channel that is closed after a while, unless it is stopped.
func (s *Store) after(d time.Duration) (passed <-chan struct{}, stop func() bool) {
	c := make(chan struct{})
	return c, s.clock.AfterFunc(d, func() { close(c) })
}

// probe waits until a shard that is down answers again.
func (s *Store) probe(sh *shard) {
	pause := sh.pause()
	for pause.Sleep(s.background) == nil {
		st, err := sh.ensure(s.background)
		if err == nil {
			_, _, err = s.readDirectory(s.background, st)
		}
		if _, unused := sh.use(); err == nil && unused != nil {
			err = s.join(s.background, sh)
		}
		if err == nil {
			sh.setUp()
			s.wakeAcknowledger()
			s.announce()
			return
		}
	}
}
