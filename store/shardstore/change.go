package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/abidehq/abide/store"
)

// errStale is the error of a change of the directory that is not as it was thought to be.
var errStale = errors.New("the directory has changed")

// changeTries is how often a change of the directory is tried if others change it too.
const changeTries = 20

// changeDirectory makes the next version of the directory: f changes a copy of the latest, or returns
// an error. The change is decided by a conditional put on the home shard, and then written to all
// others; it returns an error if one of the shards of a move under way does not get it.
func (s *Store) changeDirectory(ctx context.Context, f func(d *Directory) error) (*Directory, error) {
	for range changeTries {
		home, err := s.home()
		if err != nil {
			return nil, err
		}
		st, err := home.use()
		if err != nil {
			return nil, err
		}
		latest, version, err := s.readDirectory(ctx, st)
		if err != nil {
			return nil, home.failed(err)
		}
		if latest == nil || latest.Version < s.Directory().Version {
			latest = s.Directory() // the home lost it, or has just become the home, and gets it
		}
		s.adopt(latest)
		if latest.Home != home.name {
			continue
		}
		next := latest.next()
		if err := f(next); err != nil {
			return nil, err
		}
		if err := next.check(); err != nil {
			return nil, err
		}
		err = putDirectory(ctx, st, next, version)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if errors.Is(err, store.ErrFenced) {
			if err := s.rejoin(ctx, home); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, home.failed(err) // the outcome is unknown, and the caller begins anew
		}
		s.adopt(next)
		return next, s.spreadDirectory(ctx, next)
	}
	return nil, fmt.Errorf("shardstore: change the directory: others change it all the time: %w", store.ErrConflict)
}

// home returns the shard on which the directory is changed.
func (s *Store) home() (*shard, error) {
	name := s.Directory().Home
	if sh := s.byName[name]; sh != nil {
		return sh, nil
	}
	return nil, fmt.Errorf("shardstore: the home of the directory is shard %q, which this process was not configured with", name)
}

// spreadDirectory writes a directory to all shards that have an earlier one, at the same time. If a move is
// under way, it returns when those have it that the move is about, and fails if one of them does not
// get it. Others get it soon, or when they are reachable (watch).
func (s *Store) spreadDirectory(ctx context.Context, d *Directory) error {
	var must []string
	if d.Move != nil {
		must = []string{d.Move.From, d.Move.To}
	}
	errs := make([]error, len(s.shards))
	var needed, others sync.WaitGroup
	for i, sh := range s.shards {
		switch {
		case !slices.Contains(d.Shards, sh.name):
		case slices.Contains(must, sh.name):
			needed.Go(func() { errs[i] = s.bring(ctx, sh, d) })
		default:
			others.Add(1)
			if !s.spawn(func() {
				defer others.Done()
				_ = s.limited(func(ctx context.Context) error { return s.bring(ctx, sh, d) })
			}) {
				others.Done()
			}
		}
	}
	needed.Wait()
	if d.Move == nil {
		others.Wait()
	}
	return errors.Join(errs...)
}

// bring writes a directory to a shard, if it has an earlier one.
func (s *Store) bring(ctx context.Context, sh *shard, d *Directory) error {
	for range changeTries {
		st, err := sh.use()
		if err != nil {
			return err
		}
		has, version, err := s.readDirectory(ctx, st)
		if err != nil {
			return sh.failed(err)
		}
		if has != nil && has.Version >= d.Version {
			return nil
		}
		err = putDirectory(ctx, st, d, version)
		if err == nil {
			return nil
		}
		if errors.Is(err, store.ErrFenced) {
			err = s.rejoin(ctx, sh)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return sh.failed(err)
		}
	}
	return fmt.Errorf("shardstore: shard %s: the directory changes all the time: %w", sh.name, store.ErrConflict)
}

// AddShard adds a shard that the store was opened with to the directory. It has no tenants until some
// are moved there, and must be empty: [store.ErrInvalid] if it is not.
func (s *Store) AddShard(ctx context.Context, name string) error {
	sh := s.byName[name]
	if sh == nil {
		return fmt.Errorf("shardstore: add: there is no shard %q in the configuration: %w", name, store.ErrInvalid)
	}
	if slices.Contains(s.Directory().Shards, name) {
		return nil
	}
	if _, err := sh.use(); err != nil {
		return err
	}
	empty, err := holdsNothing(ctx, sh)
	if err != nil {
		return sh.failed(err)
	}
	if !empty {
		return fmt.Errorf("shardstore: add: shard %s is not empty: %w", name, store.ErrInvalid)
	}
	_, err = s.changeDirectory(ctx, func(d *Directory) error {
		if !slices.Contains(d.Shards, name) {
			d.Shards = append(d.Shards, name)
			slices.Sort(d.Shards)
		}
		return nil
	})
	return err
}

// RemoveShard removes a shard from the directory, after which processes need not be configured with it. It
// returns [store.ErrInvalid] if it has slots or tenants, or is the only one: see [Store.Drain].
func (s *Store) RemoveShard(ctx context.Context, name string) error {
	for {
		d, err := s.changeDirectory(ctx, func(d *Directory) error {
			i := slices.Index(d.Shards, name)
			_, _, used := d.nextToDrain(name)
			switch {
			case i < 0:
				return errDone
			case used || d.Move != nil && (d.Move.From == name || d.Move.To == name):
				return fmt.Errorf("shardstore: remove: shard %s has tenants; drain it first: %w", name, store.ErrInvalid)
			case len(d.Shards) == 1:
				return fmt.Errorf("shardstore: remove: shard %s is the only one: %w", name, store.ErrInvalid)
			case d.Home == name: // the next change is decided elsewhere
				d.Home = d.Shards[(i+1)%len(d.Shards)]
			default:
				d.Shards = slices.Delete(d.Shards, i, i+1)
			}
			return nil
		})
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil || !slices.Contains(d.Shards, name) {
			return err
		}
	}
}

// holdsNothing reports whether a shard holds nothing but the records of this package.
func holdsNothing(ctx context.Context, sh *shard) (bool, error) {
	p, err := sh.portable("add")
	if err != nil {
		return false, err
	}
	parcel, err := p.Export(ctx, "")
	own := func(r store.Record) bool { return r.Key.Kind == store.KindShards }
	return len(parcel.Keys)+len(parcel.Entries)+len(parcel.Messages) == 0 && !slices.ContainsFunc(parcel.Records, func(r store.Record) bool { return !own(r) }), err
}
