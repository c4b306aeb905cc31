package pebblestore

import (
	"cmp"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// Pending returns the messages of a key.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	release, err := s.read(ctx, "pending")
	if err != nil {
		return nil, err
	}
	defer release()
	if limit == 0 {
		limit = store.MaxPage
	}
	snapshot := s.db.NewSnapshot()
	defer snapshot.Close() //nolint:errcheck // closing a snapshot does not fail
	places, err := s.places(snapshot, key)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	s.mu.Lock()
	route := s.lanesByID[places[0].lane].route
	s.mu.Unlock()
	if route != "" { // their places are their order, so the rest need not be read
		slices.SortFunc(places, comparePlaces)
		places = places[:min(limit, len(places))]
	}
	messages := make([]store.Message, 0, len(places))
	order := map[string]pos{}
	for _, at := range places {
		m, err := s.messageAt(snapshot, key, route, at)
		if err != nil {
			return nil, err
		}
		order[m.ID] = pos{m.VisibleAt.UnixMilli(), at.pos.seq}
		messages = append(messages, m)
	}
	slices.SortFunc(messages, func(a, b store.Message) int {
		x, y := order[a.ID], order[b.ID]
		return cmp.Or(cmp.Compare(x.due, y.due), cmp.Compare(x.seq, y.seq))
	})
	return cut(messages[:min(limit, len(messages))]), nil
}

// cut returns as many of the messages as may be returned at once.
func cut(messages []store.Message) []store.Message {
	size := 0
	for i := range messages {
		if size += len(messages[i].Body); size > store.PageBytes && i > 0 {
			return messages[:i]
		}
	}
	return messages
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.pos.due, b.pos.due), cmp.Compare(a.pos.seq, b.pos.seq))
}

// places returns where the pending messages of a key are.
func (s *Store) places(from pebble.Reader, key store.Key) (places []place, err error) {
	prefix := append(keyPrefix(nil, key), keyPending)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return nil, s.readError("pending", err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var at place
		at.lane, at.pos, err = parsePending(it.Key(), it.Value())
		places = append(places, at)
	}
	if err == nil {
		err = it.Error()
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, s.readError("pending", err)
	}
	return places, nil
}

// messageAt returns the message at a place, with the attempts that the journal has.
func (s *Store) messageAt(from pebble.Reader, key store.Key, route string, at place) (store.Message, error) {
	dbKey := msgKey(nil, at.lane, at.pos)
	v, closer, err := from.Get(dbKey)
	if err != nil {
		return store.Message{}, s.readError("pending", err)
	}
	_, id, d, err := parseMsg(dbKey, v)
	d.body = slices.Clone(d.body)
	_ = closer.Close()
	if err != nil {
		return store.Message{}, err
	}
	k := keyState{key: key, route: route}
	r := ref{id: id, pos: at.pos, attempt: d.attempt}
	s.mu.Lock()
	if n, ok := s.attempts.get(at); ok {
		r.attempt = n
	}
	s.mu.Unlock()
	return k.message(&r, &d), nil
}
