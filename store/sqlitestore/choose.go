package sqlitestore

import (
	"cmp"
	"maps"
	"slices"

	"zombiezen.com/go/sqlite"
)

// The index ranges of a claim. Of two bounds of a column SQLite uses one for the range and filters
// by the other, and it may choose the wrong one: then a claim reads the index of everything that is
// pending, and with a million timers took 350 ms. So the condition of the partial index is
// repeated as an inequality, and the time is the only bound.
const (
	readyInPartition = `SELECT num, turn, first FROM keys INDEXED BY keys_due
WHERE lane = ? AND token IS NULL AND first <> 9223372036854775807 AND first <= ? ORDER BY first LIMIT ?`

	readyOfTenant = `SELECT num, turn, first FROM keys INDEXED BY keys_turn
WHERE lane = ? AND turn = ? AND token IS NULL AND first <> 9223372036854775807 AND first <= ? ORDER BY first LIMIT ?`

	nextTenantIn = `SELECT num, turn, first FROM keys INDEXED BY keys_turn
WHERE lane = ? AND turn > ? AND turn <= ? AND token IS NULL AND first <> 9223372036854775807 ORDER BY turn, first LIMIT 1`

	endedInPartition = `SELECT num, delivered, coalesce(m_seq, -1) FROM keys INDEXED BY keys_leased
WHERE lane = ? AND token IS NOT NULL AND until <= ? LIMIT ?`
)

// readyKey is a key that can be leased.
type readyKey struct {
	num   int64
	turn  int64
	first int64
}

// window is how many ready keys of a partition are read, besides twice as many as are wanted. If
// fewer are there, they are all, and tenants take turns among them. Otherwise the oldest may all
// belong to one tenant, and the tenants are visited one by one (walk).
const window = 64

// maxSeeks bounds how many tenants a walk visits: some may have only messages for later.
const maxSeeks = 2048

// choose returns the keys to lease, in order: one of each tenant, beginning after AfterTenant, then
// the next one of each; of a tenant, the key with the oldest message first.
func (k *picker) choose() ([]readyKey, error) {
	if k.p.Tenants != nil {
		return k.chooseOf(k.p.Tenants)
	}
	var oldest []readyKey
	whole, limit := true, window+2*k.p.Max
	for _, partition := range k.p.Partitions {
		n := 0
		err := k.each(readyInPartition, func(s *sqlite.Stmt) error {
			n++
			oldest = append(oldest, readyKey{s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)})
			return nil
		}, partition, k.now, limit)
		if err != nil {
			return nil, err
		}
		whole = whole && n < limit
	}
	if whole {
		return roundRobin(oldest, k.p.AfterTenant, k.p.Max), nil
	}
	found, end, err := k.walk()
	if err != nil {
		return nil, err
	}
	chosen := roundRobin(found, k.p.AfterTenant, k.p.Max)
	k.walked, k.walkedTo = len(chosen), end
	if len(chosen) < k.p.Max { // tenants with nothing ready took all the looking
		known := make(map[int64]bool, len(chosen))
		for _, r := range chosen {
			known[r.num] = true
		}
		oldest = slices.DeleteFunc(oldest, func(r readyKey) bool { return known[r.num] })
		chosen = append(chosen, roundRobin(oldest, k.p.AfterTenant, k.p.Max-len(chosen))...)
	}
	return chosen, nil
}

// chooseOf is choose for a request that is limited to tenants. Each gives its share and some more;
// if that is not enough, because some have few, each gives as many as are wanted.
func (k *picker) chooseOf(tenants []int64) (chosen []readyKey, err error) {
	for _, each := range []int{2*(k.p.Max/len(tenants)) + 1, k.p.Max} {
		var found []readyKey
		whole := true
		for _, partition := range k.p.Partitions {
			for _, tenant := range tenants {
				n := 0
				err := k.each(readyOfTenant, func(s *sqlite.Stmt) error {
					n++
					found = append(found, readyKey{s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)})
					return nil
				}, partition, tenant, k.now, each)
				if err != nil {
					return nil, err
				}
				whole = whole && n < each
			}
		}
		chosen = roundRobin(found, k.p.AfterTenant, k.p.Max)
		if whole || len(chosen) == k.p.Max {
			break
		}
	}
	return chosen, nil
}

// roundRobin orders keys as choose returns them, and cuts the list off at limit.
func roundRobin(keys []readyKey, last int64, limit int) []readyKey {
	byTurn := map[int64][]readyKey{}
	for _, r := range keys {
		byTurn[r.turn] = append(byTurn[r.turn], r)
	}
	turns := slices.SortedFunc(maps.Keys(byTurn), func(a, b int64) int {
		if aLater, bLater := a > last, b > last; aLater != bLater {
			if aLater {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	for _, turn := range turns {
		slices.SortStableFunc(byTurn[turn], func(a, b readyKey) int { return cmp.Compare(a.first, b.first) })
	}
	chosen := make([]readyKey, 0, min(limit, len(keys)))
	for round := 0; len(chosen) < limit && len(chosen) < len(keys); round++ {
		for _, turn := range turns {
			if list := byTurn[turn]; round < len(list) && len(chosen) < limit {
				chosen = append(chosen, list[round])
			}
		}
	}
	return chosen
}

// walk visits one tenant after another, beginning after AfterTenant, and returns ready keys of as
// many as are needed: one of each if there are many. If it ran out of seeks, end is the tenant
// that it visited last, after which the next walk begins.
func (k *picker) walk() (found []readyKey, end *int64, err error) {
	w := &walker{picker: k}
	const lowest, highest = -1 << 63, 1<<63 - 1
	if err := w.along(k.p.AfterTenant, highest); err != nil {
		return nil, nil, err
	}
	if err := w.along(lowest, k.p.AfterTenant); err != nil {
		return nil, nil, err
	}
	if w.exhausted() {
		end = w.end
	}
	if w.tenants == 0 {
		return nil, end, nil
	}
	each := 2*(k.p.Max/w.tenants) + 1 // some may have few, and then the others have more
	for _, t := range w.ready {
		err := k.each(readyOfTenant, func(s *sqlite.Stmt) error {
			found = append(found, readyKey{s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)})
			return nil
		}, t.partition, t.turn, k.now, each)
		if err != nil {
			return nil, nil, err
		}
	}
	return found, end, nil
}

// walker visits the tenants of several partitions at once, in the order of their numbers.
type walker struct {
	*picker
	next    map[int64]readyKey // by partition: the first key of the next tenant
	ready   []tenantIn
	tenants int // that have something ready
	seeks   int
	end     *int64 // the turn of the last tenant that was looked at
}

// exhausted reports whether the walk has used up its seeks.
func (w *walker) exhausted() bool { return w.seeks >= maxSeeks+2*len(w.p.Partitions) }

// tenantIn is a tenant in a partition.
type tenantIn struct{ partition, turn int64 }

// along walks along the tenants after one and up to another, in all partitions at once, until
// enough have something ready.
func (w *walker) along(after, upTo int64) error {
	w.next = make(map[int64]readyKey, len(w.p.Partitions))
	for _, partition := range w.p.Partitions {
		if err := w.seek(partition, after, upTo); err != nil {
			return err
		}
	}
	for len(w.next) > 0 && w.tenants < w.p.Max && !w.exhausted() {
		turn := upTo
		for _, r := range w.next {
			turn = min(turn, r.turn)
		}
		before := len(w.ready)
		for _, partition := range w.p.Partitions {
			r, ok := w.next[partition]
			if !ok || r.turn != turn {
				continue
			}
			if r.first <= w.now {
				w.ready = append(w.ready, tenantIn{partition, turn})
			}
			if err := w.seek(partition, turn, upTo); err != nil {
				return err
			}
		}
		if len(w.ready) > before {
			w.tenants++
		}
		w.end = &turn
	}
	return nil
}

// seek finds the next tenant in a partition.
func (w *walker) seek(partition, after, upTo int64) error {
	w.seeks++
	delete(w.next, partition)
	_, err := w.one(nextTenantIn, func(s *sqlite.Stmt) {
		w.next[partition] = readyKey{s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)}
	}, partition, after, upTo)
	return err
}
