package redisstore

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/store"
)

// ReadLog returns entries of a log, as many as fit into [store.LogPageBytes], with the first
// entry and the length in the same moment.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	done, err := s.begin(ctx, "read log")
	if err != nil {
		return store.LogPage{}, err
	}
	defer done()
	return s.readLog(ctx, key, from, store.LogPageBytes)
}

func (s *Store) readLog(ctx context.Context, key store.Key, from, maxBytes int) (page store.LogPage, err error) {
	m, err := s.eval(ctx, s.segmentOf(key.Tenant), readLogScript, args{keyID(key), itoa(int64(from)), itoa(int64(maxBytes))})
	if err != nil {
		return page, err
	}
	a := read(m)
	page.First, page.Length = int(a.num()), int(a.num())
	for entries := a.sub(); entries.more(); {
		page.Entries = append(page.Entries, []byte(entries.text()))
	}
	if a.err != nil {
		return page, fmt.Errorf("redisstore: read log: %w", a.err)
	}
	return page, nil
}

// Pending returns the messages of a key, leased ones included, in the order of delivery.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, "pending")
	if err != nil {
		return nil, err
	}
	defer done()
	if limit == 0 {
		limit = store.MaxPage
	}
	return s.pending(ctx, key, 0, limit, store.PageBytes)
}

// pending returns messages of a key, in the order of delivery: those with index from up to
// index to, or fewer if they have more than maxBytes.
func (s *Store) pending(ctx context.Context, key store.Key, from, to, maxBytes int) (list []store.Message, err error) {
	m, err := s.eval(ctx, s.segmentOf(key.Tenant), pendingScript, args{keyID(key), itoa(int64(from)), itoa(int64(to)), itoa(int64(maxBytes))})
	if err != nil {
		return nil, err
	}
	a := read(m)
	route := a.text()
	for a.more() {
		id, visible, attempt := a.text(), a.num(), a.num()
		m, err := parseMessage(key, route, id, a.text(), visible, attempt)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if a.err != nil {
		return nil, fmt.Errorf("redisstore: pending: %w", a.err)
	}
	return list, nil
}
