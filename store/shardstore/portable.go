package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/abidehq/abide/store"
)

// portable returns the store of a shard, which must be one that can be exported.
func (sh *shard) portable(verb string) (store.Portable, error) {
	st, err := sh.use()
	if err != nil {
		return nil, err
	}
	p, ok := st.(store.Portable)
	if !ok {
		return nil, fmt.Errorf("shardstore: %s: stores of the kind of shard %s cannot do that: %w", verb, sh.name, store.ErrInvalid)
	}
	return p, nil
}

// Export returns a part of what the shards hold, one shard after another. What a shard holds of
// tenants that are on another one is left out, and so is the directory.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	if err := s.check(ctx, "export"); err != nil {
		return store.Parcel{}, err
	}
	at, inner := 0, ""
	if cursor != "" {
		name, rest, ok := strings.Cut(cursor, "/")
		at = slices.IndexFunc(s.shards, func(sh *shard) bool { return sh.name == name })
		if inner = rest; !ok || at < 0 {
			return store.Parcel{}, fmt.Errorf("shardstore: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
		}
	}
	for {
		p, err := s.exportFrom(ctx, s.shards[at], inner)
		if err != nil {
			return store.Parcel{}, err
		}
		switch inner = p.Next; {
		case inner != "":
			p.Next = s.shards[at].name + "/" + inner
		case at+1 < len(s.shards):
			at++
			p.Next = s.shards[at].name + "/"
		}
		if p.Next == "" || len(p.Keys)+len(p.Entries)+len(p.Messages)+len(p.Records) > 0 {
			return p, nil
		}
	}
}

// exportFrom returns a parcel of a shard, with what is the shard's.
func (s *Store) exportFrom(ctx context.Context, sh *shard, cursor string) (store.Parcel, error) {
	st, err := sh.portable("export")
	if err != nil {
		return store.Parcel{}, err
	}
	p, err := st.Export(ctx, cursor)
	if err != nil {
		return store.Parcel{}, sh.failed(err)
	}
	r := s.routing.Load()
	foreign := func(tenant string) bool { return r.of(tenant) != sh }
	p.Keys = slices.DeleteFunc(p.Keys, func(h store.KeyHead) bool { return foreign(h.Key.Tenant) })
	p.Entries = slices.DeleteFunc(p.Entries, func(a store.Append) bool { return foreign(a.Key.Tenant) })
	p.Messages = slices.DeleteFunc(p.Messages, func(m store.Message) bool { return foreign(m.Key.Tenant) })
	p.Records = slices.DeleteFunc(p.Records, func(r store.Record) bool {
		return r.Key.Kind == store.KindShards || foreign(r.Key.Tenant)
	})
	return p, nil
}

// Import makes the shards hold what a parcel holds, each what is of its tenants.
func (s *Store) Import(ctx context.Context, p store.Parcel) error {
	if err := s.check(ctx, "import"); err != nil {
		return err
	}
	parts := map[*shard]*store.Parcel{}
	r := s.routing.Load()
	var unknown error
	p.Divide(func(tenant string) *store.Parcel {
		sh, err := r.locate(tenant)
		if err != nil {
			unknown = err
			return &store.Parcel{}
		}
		if parts[sh] == nil {
			parts[sh] = &store.Parcel{}
		}
		return parts[sh]
	})
	if unknown != nil {
		return unknown
	}
	for _, sh := range s.shards {
		if parts[sh] == nil {
			continue
		}
		st, err := sh.portable("import")
		if err != nil {
			return err
		}
		if err := st.Import(ctx, *parts[sh]); err != nil {
			return sh.failed(err)
		}
	}
	return nil
}

// Verify verifies each shard, and that all have the same directory.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	if err := s.check(ctx, "verify"); err != nil {
		return err
	}
	latest := s.Directory()
	for _, sh := range s.shards {
		st, err := sh.portable("verify")
		if err != nil {
			return err
		}
		if err := st.Verify(ctx, func(problem string) { report("shard " + sh.name + ": " + problem) }); err != nil {
			return sh.failed(err)
		}
		d, _, err := s.readDirectory(ctx, st)
		switch {
		case err != nil:
			return sh.failed(err)
		case d != nil && d.Version == latest.Version && string(d.encode()) != string(latest.encode()):
			report(fmt.Sprintf("shard %s: its directory of version %d is not that of the others", sh.name, d.Version))
		}
	}
	return nil
}

// Exclude excludes others from every shard. It returns [store.ErrInUse] if one of them is open
// elsewhere.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	if err := s.check(ctx, "exclude"); err != nil {
		return nil, err
	}
	var releases []func() error
	undo := func() error {
		var errs []error
		for _, release := range slices.Backward(releases) {
			errs = append(errs, release())
		}
		return errors.Join(errs...)
	}
	for _, sh := range s.shards {
		st, err := sh.portable("exclude")
		if err != nil {
			return nil, errors.Join(err, undo())
		}
		release, err := st.Exclude(ctx)
		if err != nil {
			return nil, errors.Join(sh.failed(err), undo())
		}
		releases = append(releases, release)
	}
	return sync.OnceValue(undo), nil
}
