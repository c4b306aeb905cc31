package waitlist

import "slices"

// Reader is how one Await call hears of its record: N is the news, the record itself or
// nothing. The channel has room for one, so that telling never blocks, and what is told
// before the call waits is not lost. A store embeds it in a type of its own.
type Reader[N any] struct{ News chan N }

// NewReader returns a reader that has been told nothing.
func NewReader[N any]() Reader[N] { return Reader[N]{News: make(chan N, 1)} }

// Tell gives a reader the latest news, in place of what it was told and has not yet
// received. The store's mutex is held, so nobody else tells it something.
func (r Reader[N]) Tell(news N) {
	select {
	case <-r.News:
	default:
	}
	r.News <- news
}

// Untold takes back what a reader was told and has not yet received.
func (r Reader[N]) Untold() (news N, ok bool) {
	select {
	case news = <-r.News:
		return news, true
	default:
		return news, false
	}
}

// Readers are the Await calls for one record. R is the store's own type, a pointer. The
// zero value has none.
type Readers[R comparable] struct{ list []R }

// Len returns their number.
func (rs *Readers[R]) Len() int { return len(rs.list) }

// All returns the readers, for reading, in the order in which they joined.
func (rs *Readers[R]) All() []R { return rs.list }

// Join adds a reader.
func (rs *Readers[R]) Join(r R) { rs.list = append(rs.list, r) }

// Leave removes a reader.
func (rs *Readers[R]) Leave(r R) {
	if i := slices.Index(rs.list, r); i >= 0 {
		rs.list = slices.Delete(rs.list, i, i+1)
	}
}

// Records are the Await calls of a store, by what it finds them by: the key of the record,
// or a digest of it. It is for stores that keep nothing else of a record in memory.
type Records[K, R comparable] map[K]*Readers[R]

// Join adds a reader of a record.
func (rs Records[K, R]) Join(key K, r R) {
	readers := rs[key]
	if readers == nil {
		readers = &Readers[R]{}
		rs[key] = readers
	}
	readers.Join(r)
}

// Leave removes a reader of a record.
func (rs Records[K, R]) Leave(key K, r R) {
	readers := rs[key]
	if readers == nil {
		return
	}
	if readers.Leave(r); readers.Len() == 0 {
		delete(rs, key)
	}
}

// Of returns the readers of a record, for reading.
func (rs Records[K, R]) Of(key K) []R {
	if readers := rs[key]; readers != nil {
		return readers.list
	}
	return nil
}

// All returns the readers of all records, in no order.
func (rs Records[K, R]) All() []R {
	var all []R
	for _, readers := range rs {
		all = append(all, readers.list...)
	}
	return all
}
