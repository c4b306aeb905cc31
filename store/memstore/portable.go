package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/store"
)

var _ store.Portable = (*Store)(nil)

// item is the smallest part of a parcel.
type item struct {
	size int
	add  func(p *store.Parcel)
}

// itemBytes is what an item counts besides its names and its body, so that parcels of
// empty messages end too.
const itemBytes = 64

// Export returns a part of all that there is. The cursor is how many items came before.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	if err := ctx.Err(); err != nil {
		return store.Parcel{}, err
	}
	if _, err := s.lock("export"); err != nil {
		return store.Parcel{}, err
	}
	defer s.mu.Unlock()
	items := s.items()
	from := 0
	if cursor != "" {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from <= 0 || from >= len(items) {
			return store.Parcel{}, fmt.Errorf("store: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
		}
	}
	var p store.Parcel
	size := 0
	for i, item := range items[from:] {
		if size += itemBytes + item.size; size > store.ParcelBytes && i > 0 {
			p.Next = strconv.Itoa(from + i)
			break
		}
		item.add(&p)
	}
	return p, nil
}

// items returns all that there is: the keys in their order, each with its entries and
// its messages, then the records.
func (s *Store) items() (items []item) {
	for _, k := range s.allKeys() {
		items = append(items, k.items()...)
	}
	records := slices.SortedFunc(maps.Values(s.records.byKey), func(a, b *store.Record) int {
		return cmp.Or(strings.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.Tenant, b.Key.Tenant), strings.Compare(a.Key.ID, b.Key.ID))
	})
	for _, r := range records {
		size := len(r.Key.Kind) + len(r.Key.Tenant) + len(r.Key.ID) + len(r.Body)
		items = append(items, item{size, func(p *store.Parcel) { p.Records = append(p.Records, copyRecord(r)) }})
	}
	return items
}

func (s *Store) allKeys() (keys []*keyState) {
	for _, q := range s.queues {
		for _, k := range q.keys {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *keyState) int {
		return cmp.Or(strings.Compare(a.key.Queue, b.key.Queue), strings.Compare(a.key.Tenant, b.key.Tenant), strings.Compare(a.key.Name, b.key.Name))
	})
	return keys
}

// items returns all that a key has.
func (k *keyState) items() (items []item) {
	names := len(k.key.Queue) + len(k.key.Tenant) + len(k.key.Name)
	head := store.KeyHead{Key: k.key, Route: k.route, LogTag: k.logTag, LogFirst: k.logBase, LogLength: k.logLength()}
	items = append(items, item{names, func(p *store.Parcel) { p.Keys = append(p.Keys, head) }})
	for i, entry := range k.log {
		items = append(items, item{len(entry), func(p *store.Parcel) {
			if n := len(p.Entries); n == 0 || p.Entries[n-1].Key != k.key {
				p.Entries = append(p.Entries, store.Append{Key: k.key, At: k.logBase + i})
			}
			last := &p.Entries[len(p.Entries)-1]
			last.Entries = append(last.Entries, bytes.Clone(entry))
		}})
	}
	messages := slices.SortedFunc(slices.Values(k.messages), func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	for _, m := range messages {
		items = append(items, item{names + len(m.ID) + len(m.Body), func(p *store.Parcel) { p.Messages = append(p.Messages, k.copy(m)) }})
	}
	return items
}

// Import adds what a parcel holds and the store does not.
func (s *Store) Import(ctx context.Context, p store.Parcel) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	nowMS, err := s.lock("import")
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := s.follows(&p); err != nil {
		return err
	}
	s.add(&p, nowMS)
	s.serveAll(nowMS)
	return nil
}

// add adds what a parcel holds and the store does not.
func (s *Store) add(p *store.Parcel, nowMS int64) {
	for _, h := range p.Keys {
		k := s.key(h.Key)
		k.setRoute(h.Route, 0)
		if k.logLength() == 0 {
			k.logTag, k.logBase = h.LogTag, h.LogFirst
		}
	}
	for _, a := range p.Entries {
		k := s.key(a.Key)
		for _, e := range a.Entries[min(k.logLength()-a.At, len(a.Entries)):] {
			k.log = append(k.log, bytes.Clone(e))
		}
	}
	for i := range p.Messages {
		s.importMessage(&p.Messages[i], nowMS)
	}
	for _, r := range p.Records {
		added := copyRecord(&r)
		s.setRecord(r.Key, &added)
	}
}

// follows reports whether the entries of a parcel follow on those that are there.
func (s *Store) follows(p *store.Parcel) error {
	lengths := map[store.Key]int{}
	for _, h := range p.Keys {
		lengths[h.Key] = h.LogFirst
	}
	for _, a := range p.Entries {
		length := lengths[a.Key]
		if k := s.find(a.Key); k != nil {
			length = max(length, k.logLength())
		}
		if a.At > length {
			return fmt.Errorf("store: import: entries of %v begin at %d, and its log has length %d: %w", a.Key, a.At, length, store.ErrInvalid)
		}
		lengths[a.Key] = max(length, a.At+len(a.Entries))
	}
	return nil
}

func (s *Store) importMessage(m *store.Message, nowMS int64) {
	k := s.key(m.Key)
	if k.route == "" {
		k.setRoute(m.Route, 0) // its head came in an earlier parcel
	}
	if k.message(m.ID) != nil {
		return
	}
	ttl := m.TTL
	if ttl == 0 {
		ttl = store.DefaultTTL
	}
	s.seq++
	added := &message{
		Message:   *m,
		visibleMS: store.Millis(m.VisibleAt),
		seq:       s.seq,
		expiresMS: store.Millis(m.PutAt) + millis(ttl),
	}
	added.Body = bytes.Clone(m.Body)
	k.insert(added)
	k.queue.settle(k, nowMS)
}

// Verify looks at what must hold of the maps.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.lock("verify"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, k := range s.allKeys() {
		if len(k.messages) == 0 && k.logLength() == 0 {
			report(fmt.Sprintf("key %v has neither messages nor a log", k.key))
		}
		if !slices.IsSortedFunc(k.messages, func(a, b *message) int {
			return cmp.Or(cmp.Compare(a.visibleMS, b.visibleMS), cmp.Compare(a.seq, b.seq))
		}) {
			report(fmt.Sprintf("the messages of %v are not in the order of delivery", k.key))
		}
		if k.lease == nil {
			continue
		}
		for _, m := range k.lease.delivered {
			if k.message(m.ID) != m {
				report(fmt.Sprintf("the lease of %v is of message %q, which is not there", k.key, m.ID))
			}
		}
	}
	for key, r := range s.records.byKey {
		if r.Key != key || r.Version < 1 {
			report(fmt.Sprintf("record %v is kept as %v, with version %d", r.Key, key, r.Version))
		}
	}
	return nil
}

// Exclude keeps messages from going to quarantine by themselves. There is nobody to keep
// out: the store is of one process.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.lock("exclude"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.excluded++
	released := false
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if released || s.closed {
			return nil
		}
		released = true
		s.excluded--
		s.serveAll(s.advance())
		return nil
	}, nil
}
