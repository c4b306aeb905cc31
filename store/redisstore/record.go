package redisstore

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

var versionsScript = newScript("await", false, true, "head", "versions")

// Get returns a record, or [store.ErrNotFound].
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	done, err := s.begin(ctx, "get")
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	r, ok, err := s.get(ctx, "get", s.segmentOf(key.Tenant), recordID(key))
	if err == nil && !ok {
		err = store.NotFound("get", key)
	}
	return r, err
}

// get reads a record, and reports whether it exists.
func (s *Store) get(ctx context.Context, verb string, seg *segment, rid string) (r store.Record, ok bool, err error) {
	raw, err := s.getRaw(ctx, verb, seg, rid)
	if err != nil || raw == "" {
		return r, false, err
	}
	r, err = parseRecord(rid, raw)
	return r, err == nil, err
}

// getRaw returns the stored form of a record, or "" if it does not exist. It is a plain GET,
// which the server answers faster than a script. While the server loads its
// data, or the cluster does not serve the slot, it waits by means of eval, which has the rules
// for that.
func (s *Store) getRaw(ctx context.Context, verb string, seg *segment, rid string) (raw string, err error) {
	var c *connection
	for range 3 { // it only reads, so it may be tried again
		c = s.client.Load()
		raw, err = c.Do(ctx, c.B().Get().Key(seg.prefix+"r"+rid).Build()).ToString()
		switch {
		case err == nil:
			return raw, nil
		case rueidis.IsRedisNil(err):
			return "", nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case notRun(c, err):
			if _, err = s.eval(ctx, seg, versionsScript, args{"0"}); err != nil { // it waits until the server is ready
				return "", err
			}
		}
	}
	return "", s.callError(c, verb, err)
}

// awaiter is an Await call. Its news is the record in its stored form, from a commit of this
// process, or "": then it reads the record.
type awaiter struct {
	waitlist.Reader[string]
	segment *segment
	rid     string
	seen    atomic.Int64 // the version it knows, for checkAwaited
}

// Await returns a record when it is past a version. It returns [store.ErrNotFound] if the
// record does not exist, or is deleted, and after is above zero.
//
// The call joins before it reads, so that no change between the read and the wait is
// missed. If the record is known to be at the version after, it does not read at all
// before it is told of a change: that is the common case of a process that awaits what
// it has itself written.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	done, err := s.begin(ctx, "await")
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	a := &awaiter{Reader: waitlist.NewReader[string](), segment: s.segmentOf(key.Tenant), rid: recordID(key)}
	leave, known := s.joinAwait(a, after)
	defer leave()
	for {
		raw := ""
		if known {
			a.seen.Store(after)
			select {
			case raw = <-a.News:
			case <-ctx.Done():
				return store.Record{}, ctx.Err()
			}
		}
		r, ok, err := s.awaitedRecord(ctx, a, raw, after)
		switch {
		case err != nil:
			return store.Record{}, err
		case s.isClosed():
			return store.Record{}, store.Closed("await")
		case ok && r.Version > after:
			return r, nil
		case !ok && after > 0:
			return store.Record{}, store.NotFound("await", key)
		}
		known = true
		a.seen.Store(r.Version)
	}
}

// awaitedRecord returns the record that a call waits for: from the news, if that has a later
// version, or from the server. News may be older than what the call has seen, because commits
// are announced after the server has answered.
func (s *Store) awaitedRecord(ctx context.Context, a *awaiter, raw string, after int64) (r store.Record, ok bool, err error) {
	if raw != "" {
		r, err = parseRecord(a.rid, raw)
		if err != nil || r.Version > after {
			return r, err == nil, err
		}
	}
	return s.get(ctx, "await", a.segment, a.rid)
}

// joinAwait adds a call. It reports whether the record is known to be at the version after:
// then the call need not read before it is told of a change. That holds only while hints
// are received, which would report changes by other processes.
func (s *Store) joinAwait(a *awaiter, after int64) (leave func(), known bool) {
	d := digest(a.rid)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaiting.Join(d, a)
	if !s.closed {
		s.startListening()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.awaiting.Leave(d, a)
	}, after > 0 && s.listening.Load() && s.known.version(d) == after
}

// maxKnown is the size of a generation of known versions; there are two.
const maxKnown = 4096

// versions holds the versions of the records that this process has written last, by their
// digests. An Await call for such a record does not read it first: hints report changes by
// other processes, and the poll finds those whose hint was lost. No call is answered from
// here, so that a stale version delays an Await by a poll at most.
//
// There are two generations, so that forgetting costs nothing: when the young
// one is full it becomes the old one, and the old one is dropped.
type versions struct{ young, old map[uint64]int64 }

func (v *versions) version(d uint64) int64 {
	if n, known := v.young[d]; known {
		return n
	}
	return v.old[d]
}

// note adds a version, unless a later one is known: the goroutines of two groups announce
// their commits in any order.
func (v *versions) note(d uint64, version int64) {
	if v.version(d) > version {
		return
	}
	if len(v.young) >= maxKnown || v.young == nil {
		v.old, v.young = v.young, make(map[uint64]int64, maxKnown)
	}
	v.young[d] = version
}

func (v *versions) forget(d uint64) {
	delete(v.young, d)
	delete(v.old, d)
}

func (v *versions) clear() { v.young, v.old = nil, nil }

// written is a record that a commit puts or deletes.
//
// It holds the parts of which the stored form is made, so that an Await call can
// be given the record without a read; the whole is assembled only if a call waits.
type written struct {
	rid     string
	digest  uint64
	put     bool
	version int64 // after the commit; 0 if unknown, or deleted
	at      int64
	status  string
	rest    string // name, tags and body, as restOf encodes them
}

// raw returns the stored form of the record, as the script writes it.
func (w *written) raw() string {
	b := make([]byte, 0, 18+len(w.status)+len(w.rest))
	b = binary.BigEndian.AppendUint64(b, uint64(w.version)) //nolint:gosec // it is not negative
	b = binary.BigEndian.AppendUint64(b, uint64(w.at))      //nolint:gosec // it is not negative
	return string(append(long(b, w.status), w.rest...))
}

// notifyWritten gives the Await calls of records what a commit of this process has made of
// them, and notes the versions. Of a record whose version is unknown, and of a deleted one,
// the calls only learn that they must read.
func (s *Store) notifyWritten(list []written) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		w := &list[i]
		if w.version > 0 {
			s.known.note(w.digest, w.version)
		} else {
			s.known.forget(w.digest)
		}
		for _, a := range s.awaiting.Of(w.digest) {
			raw := ""
			if a.rid == w.rid && w.version > 0 {
				raw = w.raw()
			}
			a.Tell(raw)
		}
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// awaited returns all Await calls.
func (s *Store) awaited() []*awaiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaiting.All()
}

// notifyRecords handles the records of a hint: digests, or manyRecords.
func (s *Store) notifyRecords(changed string) {
	if changed == manyRecords {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known.clear()
		for _, a := range s.awaiting.All() {
			a.Tell("")
		}
		return
	}
	s.notifyDigests([]byte(changed))
}
