package builds

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Kind is the kind of the record.
const Kind = "builds"

var key = store.RecordKey{Kind: Kind, ID: "builds"}

// Most is how many builds the record keeps. When there are more, the one that was seen first and for which
// nothing is set is forgotten: only lists and reports miss it.
const Most = 1_000

// Unset is the percent of a build for which no share is set.
const Unset = -1

// Build is a build that is known, because an engine of it pins instances or because something is set for it.
type Build struct {
	ID string

	// Percent is the share of new instances that it gets, or [Unset].
	Percent int

	// Drained is true if it gets no new instances, and nothing that another build can run.
	Drained bool

	// Since is when it was first seen, by the clock of a process.
	Since time.Time

	// Routes are the orchestrations whose instances it pins.
	Routes []string
}

// Settings are all builds that are known, in order of their IDs.
type Settings struct {
	Version int64 // of the record; 0 if there is none
	Builds  []Build
}

// Find returns a build, or nil.
func (s *Settings) Find(id string) *Build {
	i, found := s.search(id)
	if !found {
		return nil
	}
	return &s.Builds[i]
}

// Drained reports whether a build is drained.
func (s *Settings) Drained(id string) bool {
	b := s.Find(id)
	return b != nil && b.Drained
}

func (s *Settings) search(id string) (int, bool) {
	return slices.BinarySearchFunc(s.Builds, id, func(b Build, id string) int { return strings.Compare(b.ID, id) })
}

// Add returns a build, which becomes known if it was not.
func (s *Settings) Add(id string, now time.Time) *Build {
	i, found := s.search(id)
	if found {
		return &s.Builds[i]
	}
	if len(s.Builds) >= Most {
		s.forget()
		i, _ = s.search(id)
	}
	s.Builds = slices.Insert(s.Builds, i, Build{ID: id, Percent: Unset, Since: now})
	return &s.Builds[i]
}

// forget removes the build that was seen first, of those for which nothing is set.
func (s *Settings) forget() {
	oldest := -1
	for i := range s.Builds {
		b := &s.Builds[i]
		if b.Percent == Unset && !b.Drained && (oldest < 0 || b.Since.Before(s.Builds[oldest].Since)) {
			oldest = i
		}
	}
	if oldest >= 0 {
		s.Builds = slices.Delete(s.Builds, oldest, oldest+1)
	}
}

// Set reports whether anything is set for any build.
func (s *Settings) Set() bool {
	return slices.ContainsFunc(s.Builds, func(b Build) bool { return b.Percent != Unset || b.Drained })
}

// CheckShares reports whether the shares of builds that are not drained are at most 100 percent together.
func (s *Settings) CheckShares() error {
	sum := 0
	for i := range s.Builds {
		if b := &s.Builds[i]; b.Percent != Unset && !b.Drained {
			sum += b.Percent
		}
	}
	if sum > 100 {
		return fmt.Errorf("the shares of all builds that are not drained are %d %% together, at most 100 are allowed", sum)
	}
	return nil
}

// parts is how many parts the instances are divided into by their IDs: a percent is a hundred of them.
const parts = 10_000

// part returns the part of an instance: the first 8 bytes of the SHA-256 of its tenant, a zero and its ID.
func part(tenant, id string) int {
	sum := sha256.Sum256([]byte(tenant + "\x00" + id))
	return int(binary.BigEndian.Uint64(sum[:8]) % parts)
}

// Choose returns the build that a new instance is pinned to. live are the builds that can run it, and own is
// the one of them that asks. Builds that are drained are chosen only if there is no other.
//
// An instance is in one of 10,000 parts, by its tenant and ID. The builds with a share have consecutive
// ranges of parts, in order of their IDs; the rest is for builds without one, own before others. If there are
// only builds with a share, all parts are divided among them.
func (s *Settings) Choose(tenant, id, own string, live []string) string {
	at := part(tenant, id)
	var shared, rest []string
	total := 0
	for _, b := range slices.Sorted(slices.Values(live)) {
		switch set := s.Find(b); {
		case set != nil && set.Drained:
		case set != nil && set.Percent != Unset:
			shared, total = append(shared, b), total+set.Percent
		default:
			rest = append(rest, b)
		}
	}
	if len(rest) == 0 && total > 0 {
		at = at * total / 100
	}
	for _, b := range shared {
		share := s.Find(b).Percent * (parts / 100)
		if at < share {
			return b
		}
		at -= share
	}
	switch {
	case slices.Contains(rest, own):
		return own
	case len(rest) > 0:
		return rest[at%len(rest)]
	case slices.Contains(shared, own), len(shared) == 0:
		return own
	}
	return shared[at%len(shared)]
}

// Read returns the settings of a store. Of a record that cannot be read, such as one of a later release, it returns
// the version, and an error that matches [store.ErrCorrupt].
func Read(ctx context.Context, s store.Store) (Settings, error) {
	r, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return Settings{}, nil
	}
	if err != nil {
		return Settings{}, err
	}
	return parse(r)
}

// Await returns the settings as soon as they are later than a version. Errors are as those of [Read].
func Await(ctx context.Context, s store.Store, after int64) (Settings, error) {
	r, err := s.Await(ctx, key, after)
	if errors.Is(err, store.ErrNotFound) { // deleted, by who restores a store
		return Settings{}, nil
	}
	if err != nil {
		return Settings{}, err
	}
	return parse(r)
}

// changeTries is how often a change is tried that meets another one.
const changeTries = 20

// Change changes the settings of a store, and returns them. It changes nothing if f returns false. An error of
// f is returned as it is.
func Change(ctx context.Context, s store.Store, f func(*Settings) (bool, error)) (Settings, error) {
	for try := 1; ; try++ {
		settings, err := Read(ctx, s)
		if err != nil {
			return settings, err
		}
		change, err := f(&settings)
		if err != nil || !change {
			return settings, err
		}
		put := store.PutRecord{Expect: settings.Version, Record: store.Record{Key: key, Body: settings.encode()}}
		err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{put}})
		if err == nil {
			settings.Version++
			return settings, nil
		}
		if !errors.Is(err, store.ErrConflict) || try == changeTries {
			return Settings{}, err
		}
	}
}

// format is the first byte of the record.
const format = 1

// Bits of the flags of a build.
const (
	flagDrained = 1 << iota
	flagShare
)

func (s *Settings) encode() []byte {
	out := []byte{format}
	out = wire.AppendNumber(out, uint64(len(s.Builds)))
	for i := range s.Builds {
		out = wire.AppendString(out, s.Builds[i].encode())
	}
	return out
}

func (b *Build) encode() []byte {
	flags, percent := uint64(0), 0
	if b.Drained {
		flags |= flagDrained
	}
	if b.Percent != Unset {
		flags, percent = flags|flagShare, b.Percent
	}
	out := wire.AppendString(nil, b.ID)
	out = wire.AppendNumber(out, flags)
	out = wire.AppendNumber(out, uint64(percent))
	out = wire.AppendTime(out, b.Since)
	return wire.AppendStrings(out, b.Routes)
}

func parse(r store.Record) (Settings, error) {
	d := wire.Reader{Data: r.Body}
	d.Format(format)
	s := Settings{Version: r.Version}
	for n := d.Number(); n > 0 && d.Err == nil; n-- {
		b := wire.Reader{Data: d.Bytes()}
		build := Build{ID: b.String(), Percent: Unset}
		flags, percent := b.Number(), int(b.Int32())
		build.Drained = flags&flagDrained != 0
		if flags&flagShare != 0 {
			build.Percent = percent
		}
		build.Since, build.Routes = b.Time(), wire.Strings[string](&b)
		if b.Err != nil {
			d.Fail(b.Err.Error())
		}
		s.Builds = append(s.Builds, build)
	}
	if d.Err != nil {
		return Settings{Version: r.Version}, fmt.Errorf("builds: the record of builds: %w: %w", d.Err, store.ErrCorrupt)
	}
	return s, nil
}
