package redisstore

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/store"
)

var versionsScript = newScript("await", false, true, "head", "versions")

// Get returns a record.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	done, err := s.begin(ctx, "get")
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	r, ok, err := s.get(ctx, "get", recordID(key))
	if err == nil && !ok {
		err = store.NotFound("get", key)
	}
	return r, err
}

// get reads a record, and reports whether there is one.
func (s *Store) get(ctx context.Context, verb, rid string) (r store.Record, ok bool, err error) {
	raw, err := s.getRaw(ctx, verb, rid)
	if err != nil || raw == "" {
		return r, false, err
	}
	r, err = parseRecord(rid, raw)
	return r, err == nil, err
}

func (s *Store) getRaw(ctx context.Context, verb, rid string) (raw string, err error) {
	for range 3 { // it only reads, so it may be tried again
		c := s.client.Load()
		raw, err = c.Do(ctx, c.B().Get().Key(s.prefix+"r"+rid).Build()).ToString()
		switch {
		case err == nil:
			return raw, nil
		case rueidis.IsRedisNil(err):
			return "", nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errorKind(err) == "LOADING":
			if _, err = s.eval(ctx, versionsScript, args{"0"}); err != nil { // it waits until the server has read its data
				return "", err
			}
		}
	}
	return "", s.failed(verb, err)
}

// awaiter is an Await call.
type awaiter struct {
	rid     string
	seen    atomic.Int64 // the version that it saw last
	changed chan struct{}
}

func (a *awaiter) tell() {
	select {
	case a.changed <- struct{}{}:
	default: // it has not yet seen that it was told
	}
}

// Await returns a record when it is past a version.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	done, err := s.begin(ctx, "await")
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	a := &awaiter{rid: recordID(key), changed: make(chan struct{}, 1)}
	leave := s.joinAwait(a)
	defer leave()
	for {
		r, ok, err := s.get(ctx, "await", a.rid)
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
		a.seen.Store(r.Version)
		select {
		case <-a.changed:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		}
	}
}

func (s *Store) joinAwait(a *awaiter) (leave func()) {
	d := digest(a.rid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting[d] == nil {
		s.awaiting[d] = map[*awaiter]struct{}{}
	}
	s.awaiting[d][a] = struct{}{}
	if !s.closed {
		s.watch()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.awaiting[d], a)
		if len(s.awaiting[d]) == 0 {
			delete(s.awaiting, d)
		}
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// awaited returns the Await calls that wait.
func (s *Store) awaited() (list []*awaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waits := range s.awaiting {
		for a := range waits {
			list = append(list, a)
		}
	}
	return list
}

// tellRecords has those look who wait for records that have changed: digests of them, or
// that there are many.
func (s *Store) tellRecords(changed string) {
	if changed == manyRecords {
		for _, a := range s.awaited() {
			a.tell()
		}
		return
	}
	s.tellDigests([]byte(changed))
}
