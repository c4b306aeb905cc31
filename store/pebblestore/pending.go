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
//
// It reads the disk and not memory, so that it does not delay commits: it shows
// what is applied, with the attempts that the journal has. Leased messages are included.
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
	locations, err := s.locations(view, key)
	if err != nil || len(locations) == 0 {
		return nil, err
	}
	name, err := s.partitionName(view, locations[0].partition)
	if err != nil {
		return nil, err
	}
	if name.route == "" { // positions are expiries, and not visible times
		if err := s.orderHidden(view, locations); err != nil {
			return nil, err
		}
	} else {
		slices.SortFunc(locations, compareLocations)
	}
	var messages []store.Message
	size := 0
	for _, at := range locations[:min(limit, len(locations))] {
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

// orderHidden sorts the locations of messages without a route by when they are visible, for
// which it has to read them.
func (s *Store) orderHidden(from source, locations []location) error {
	visible := make(map[location]int64, len(locations))
	for _, at := range locations {
		d, err := s.readMsg(from, msgKey(nil, at.partition, at.pos))
		if err != nil {
			return err
		}
		visible[at] = d.visibleMS
	}
	slices.SortFunc(locations, func(a, b location) int {
		return cmp.Or(cmp.Compare(visible[a], visible[b]), cmp.Compare(a.pos.seq, b.pos.seq))
	})
	return nil
}

func compareLocations(a, b location) int {
	return cmp.Or(cmp.Compare(a.pos.due, b.pos.due), cmp.Compare(a.pos.seq, b.pos.seq))
}

// locations returns where the pending messages of a key are.
func (s *Store) locations(from source, key store.Key) (locations []location, err error) {
	prefix := append(keyPrefix(nil, key), keyPending)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper(prefix)})
	if err != nil {
		return nil, s.readError("pending", err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var at location
		at.partition, at.pos, err = parsePending(it.Key(), it.Value())
		locations = append(locations, at)
	}
	err = closeIter(it, err)
	if err != nil {
		return nil, s.readError("pending", err)
	}
	return locations, nil
}

// messageAt returns the message at a location, with the attempts that the journal has.
func (s *Store) messageAt(from source, key store.Key, route string, at location) (store.Message, error) {
	dbKey := msgKey(nil, at.partition, at.pos)
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

// partitionName returns what a partition is for, from the same view as its messages: in
// memory the partition may have been dropped since.
func (s *Store) partitionName(from source, partition uint32) (partitionName, error) {
	key := partitionKey(nil, partition)
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return partitionName{}, fmt.Errorf("pebblestore: partition %d has messages and is not there: %w", partition, store.ErrCorrupt)
	}
	if err != nil {
		return partitionName{}, s.readError("read partition", err)
	}
	r := reader{b: v}
	name := partitionName{r.string(), r.string(), r.string()}
	_ = closer.Close()
	return name, r.check("partition", key)
}
