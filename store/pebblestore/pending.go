package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	view, err := s.view()
	if err != nil {
		return nil, s.readError("pending", err)
	}
	defer view.close()
	places, err := s.places(view, key)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	name, err := s.laneName(view, places[0].lane)
	if err != nil {
		return nil, err
	}
	if name.route == "" { // their places say when they expire, and not when they are visible
		if err := s.orderHidden(view, places); err != nil {
			return nil, err
		}
	} else {
		slices.SortFunc(places, comparePlaces)
	}
	var messages []store.Message
	size := 0
	for _, at := range places[:min(limit, len(places))] {
		m, err := s.messageAt(view, key, name.route, at)
		if err != nil {
			return nil, err
		}
		if size += len(m.Body); size > store.PageBytes && len(messages) > 0 {
			break
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// orderHidden orders the places of messages without a route by when they are visible.
func (s *Store) orderHidden(from source, places []place) error {
	visible := make(map[place]int64, len(places))
	for _, at := range places {
		d, err := s.readMsg(from, msgKey(nil, at.lane, at.pos))
		if err != nil {
			return err
		}
		visible[at] = d.visibleMS
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(visible[a], visible[b]), cmp.Compare(a.pos.seq, b.pos.seq))
	})
	return nil
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.pos.due, b.pos.due), cmp.Compare(a.pos.seq, b.pos.seq))
}

// places returns where the pending messages of a key are.
func (s *Store) places(from source, key store.Key) (places []place, err error) {
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
	err = closeIter(it, err)
	if err != nil {
		return nil, s.readError("pending", err)
	}
	return places, nil
}

// messageAt returns the message at a place, with the attempts that the journal has.
func (s *Store) messageAt(from source, key store.Key, route string, at place) (store.Message, error) {
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

// laneName returns what a lane is for, as the disk says: the lane may be gone since.
func (s *Store) laneName(from source, lane uint32) (laneName, error) {
	key := laneKey(nil, lane)
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return laneName{}, fmt.Errorf("pebblestore: lane %d has messages and is not there: %w", lane, store.ErrCorrupt)
	}
	if err != nil {
		return laneName{}, s.readError("read lane", err)
	}
	r := reader{b: v}
	name := laneName{r.string(), r.string(), r.string()}
	_ = closer.Close()
	return name, r.check("lane", key)
}
