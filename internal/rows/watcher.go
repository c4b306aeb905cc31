package rows

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// watcher serves Await calls. It knows which records are awaited, the versions of the records
// that this process committed last, and which groups are in flight.
//
// A record that a group of this process commits is passed to the calls that await it, without
// a query. A record that another process may have changed (an announcement, a lost hint, a
// group whose outcome is unknown) is read by each call that awaits it.
//
// Invariants:
//
//   - versions has a version only if no transaction that is known to have changed the record
//     since is missing in it: it is dropped by every announcement and every unknown outcome.
//   - A group that changes a record while another process changes it too is marked in doubt for
//     that record: which of the two came first is not known, so neither is cached.
//   - A wake-up is never lost: the call is registered before it reads, and wake has room for
//     one.
//
// The states of a cached version, and of a call that awaits the record:
//
//	event                                   version     call
//	group of this process committed         put         gets the record
//	 … and another process may have too    dropped     reads
//	group failed, outcome unknown           dropped     reads
//	announced by another process            dropped     reads
//	anything may have changed               dropped     reads if a query finds another version
//	record put into quarantine              dropped     reads
//
// Its mutex is held for map operations only. No other lock of the package is taken under it
// but that of lifecycle.
type watcher struct {
	*env

	mu       sync.Mutex
	awaits   map[int64]map[*await]bool // by the number of the record
	versions versionCache
	groups   map[*group]bool // in flight
	querying bool            // the versions of all awaited records are being queried
	requery  bool            // and are to be once more

	// Calls whose records other processes have not been asked to announce: this process wrote
	// them last. And those that were asked for and whose versions are to be queried once more.
	unwatched, unchecked map[*await]int64
	checking             bool // a timer is set for the latter
	ticking              bool // a timer is set for the former
}

const (
	// checkAfter is when the versions of records are queried again that others were asked to
	// announce: one that changed before they knew was not announced.
	checkAfter = 10 * time.Millisecond

	// watchAfter is how long a call waits for a record that this process wrote last before other
	// processes are asked to announce it: its instance is here as a rule.
	watchAfter = time.Second
)

// await is an Await call that waits.
type await struct {
	key   store.RecordKey
	after int64
	wake  chan struct{} // with room for one

	// What a group of this process made of the record. If known is false, the call reads it.
	known  bool
	record *store.Record // nil if it was deleted; shared with other calls
}

func newWatcher(e *env) *watcher {
	return &watcher{
		env: e, awaits: map[int64]map[*await]bool{}, versions: newVersionCache(), groups: map[*group]bool{},
		unwatched: map[*await]int64{}, unchecked: map[*await]int64{},
	}
}

// signal wakes the call.
func (a *await) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// unknown has the call read the record.
func (a *await) unknown() {
	a.known, a.record = false, nil
	a.signal()
}

// Await returns a record as soon as its version is greater than after. It returns
// store.ErrNotFound if the record does not exist and after is not 0, store.ErrClosed if the
// store is closed, and the error of ctx when that ends.
func (f *Core) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	if err := f.Check(ctx, "await"); err != nil {
		return store.Record{}, err
	}
	a, number := &await{key: key, after: after, wake: make(chan struct{}, 1)}, RecordOf(key)
	known := f.records.add(number, a)
	f.polls.ensure()
	defer f.records.remove(number, a)
	for {
		if !known {
			r, err := f.db.Record(ctx, key)
			switch {
			case err == nil && r.Version > after:
				return r, nil
			case errors.Is(err, store.ErrNotFound) && after > 0:
				return store.Record{}, store.NotFound("await", key)
			case err != nil && !errors.Is(err, store.ErrNotFound):
				if closed := f.Check(ctx, "await"); closed != nil {
					return store.Record{}, closed
				}
				return store.Record{}, err
			}
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		case <-f.life.closing:
			return store.Record{}, store.Closed("await")
		}
		var record *store.Record
		record, known = f.records.take(a)
		switch {
		case known && record == nil && after > 0:
			return store.Record{}, store.NotFound("await", key)
		case known && record != nil && record.Version > after:
			return copyRecord(record), nil
		}
	}
}

// add registers a call, and reports whether the record is known to have the version that the
// caller has, and hints announce the next, or no other process makes one: then nothing is to be
// read. A process that comes later without hints is found out by the next poll.
func (w *watcher) add(number int64, a *await) (known bool) {
	told := w.db.Hinted() || w.db.Alone()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaits[number] == nil {
		w.awaits[number] = map[*await]bool{}
	}
	w.awaits[number][a] = true
	version, ok := w.versions.get(number)
	if known = ok && told && version == a.after; known || w.db.Alone() {
		w.unwatched[a] = number
		w.tick()
		return known
	}
	w.watch(map[*await]int64{a: number})
	return false
}

// watch has other processes asked to announce the records of calls, and queries their versions
// once more when they know. The caller holds the lock.
func (w *watcher) watch(calls map[*await]int64) {
	w.db.Watch(slices.Collect(maps.Values(calls)))
	maps.Copy(w.unchecked, calls)
	if w.checking {
		return
	}
	w.checking = true
	w.clock.AfterFunc(checkAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		calls := w.unchecked
		w.unchecked, w.checking = map[*await]int64{}, false
		w.life.spawn(func() { w.queryThese(calls) })
	})
}

// tick sets a timer after which other processes are asked to announce the records of calls that
// still wait then. The caller holds the lock.
func (w *watcher) tick() {
	if w.ticking {
		return
	}
	w.ticking = true
	older := map[*await]int64{}
	w.clock.AfterFunc(watchAfter, func() { w.watchOlder(older) })
}

// watchOlder asks other processes to announce the records of those calls that have waited since
// the last tick.
func (w *watcher) watchOlder(older map[*await]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ticking = len(w.unwatched) > 0; !w.ticking || w.life.check(w.life.ctx, "await") != nil {
		return
	}
	if w.db.Alone() {
		older = nil // nobody else changes anything
	}
	calls := map[*await]int64{}
	for a, number := range older {
		if _, waits := w.unwatched[a]; waits {
			calls[a] = number
			delete(w.unwatched, a)
		}
	}
	if len(calls) > 0 {
		w.watch(calls)
	}
	next := maps.Clone(w.unwatched)
	w.clock.AfterFunc(watchAfter, func() { w.watchOlder(next) })
}

// watchAll asks other processes again to announce all awaited records: they forget.
func (w *watcher) watchAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.awaits) > 0 && !w.db.Alone() {
		w.db.Watch(slices.Collect(maps.Keys(w.awaits)))
	}
}

// remove unregisters a call.
func (w *watcher) remove(number int64, a *await) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unwatched, a)
	delete(w.unchecked, a)
	delete(w.awaits[number], a)
	if len(w.awaits[number]) == 0 {
		delete(w.awaits, number)
	}
}

// take returns what a call was woken with.
func (w *watcher) take(a *await) (record *store.Record, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record, known = a.record, a.known
	a.record, a.known = nil, false
	return record, known
}

// anyWaits reports whether a call waits.
func (w *watcher) anyWaits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.awaits) > 0
}

// change is a record that a group changed. work is nil if the outcome is not known.
type change struct {
	key    store.RecordKey
	number int64
	work   *recordWork
}

// began registers a group before its transaction starts: from then on it is marked with what
// others change.
func (w *watcher) began(g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[g] = true
}

// committed passes what a durable group made of records to the calls that await them.
func (w *watcher) committed(g *group, changed []change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, g)
	for i := range changed {
		c := &changed[i]
		if g.allDoubted || g.doubts[c.number] {
			c.work = nil
		}
		w.changed(c)
	}
}

// failed unregisters a group that failed. The records of changed may have been written.
func (w *watcher) failed(g *group, changed []change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, g)
	for i := range changed {
		changed[i].work = nil
		w.changed(&changed[i])
	}
}

// changed wakes the calls that await a record. No other group of this process in flight has
// the record in its footprint, unless the outcome is not known or the record was not loaded
// (a quarantine): then such a group may have changed it before or after, and is in doubt. The
// caller holds the lock.
func (w *watcher) changed(c *change) {
	if c.work == nil {
		for g := range w.groups {
			g.doubts[c.number] = true
		}
		w.versions.drop(c.number)
	} else {
		w.versions.put(c.number, c.work.version)
	}
	for a := range w.awaits[c.number] {
		if a.key != c.key {
			continue // another record with the same number
		}
		a.known, a.record = c.work != nil, nil
		if c.work != nil && c.work.version > 0 {
			a.record = c.work.record
		}
		a.signal()
	}
}

// announced has the calls read that await records which another process changed.
func (w *watcher) announced(numbers []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, number := range numbers {
		for g := range w.groups {
			g.doubts[number] = true
		}
		w.reread(number)
	}
}

// announcedAll drops all versions, and queries those of all awaited records.
func (w *watcher) announcedAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for g := range w.groups {
		g.allDoubted = true
	}
	w.versions = newVersionCache()
	w.querySoon()
}

// reread drops the version of a record and has the calls that await it read. The caller holds
// the lock.
func (w *watcher) reread(number int64) {
	w.versions.drop(number)
	for a := range w.awaits[number] {
		a.unknown()
	}
}

// querySoon queries the versions of all awaited records in a task: once more if that is under
// way. The caller holds the lock.
func (w *watcher) querySoon() {
	if len(w.awaits) == 0 {
		return
	}
	if w.requery = w.querying; w.querying {
		return
	}
	w.querying = w.life.spawn(func() {
		for again := true; again; {
			w.query()
			w.mu.Lock()
			again = w.requery
			w.querying, w.requery = again, false
			w.mu.Unlock()
		}
	})
}

// maxVersions is the most records whose versions are read by one query.
const maxVersions = 5000

// query reads the versions of all awaited records, and has the calls read whose record has
// changed. The caller does not hold the lock.
func (w *watcher) query() {
	w.mu.Lock()
	awaited := map[store.RecordKey]bool{}
	for _, list := range w.awaits {
		for a := range list {
			awaited[a.key] = true
		}
	}
	w.mu.Unlock()
	w.queryKeys(awaited)
}

// queryThese is query for the records of some calls.
func (w *watcher) queryThese(calls map[*await]int64) {
	awaited := map[store.RecordKey]bool{}
	for a := range calls {
		awaited[a.key] = true
	}
	w.queryKeys(awaited)
}

func (w *watcher) queryKeys(awaited map[store.RecordKey]bool) {
	for keys := range slices.Chunk(slices.Collect(maps.Keys(awaited)), maxVersions) {
		versions, err := w.db.Versions(w.life.querying, keys)
		w.mu.Lock()
		for i, key := range keys {
			number := RecordOf(key)
			if err != nil { // each call finds out by itself what is wrong
				w.reread(number)
				continue
			}
			w.found(key, number, versions[i])
		}
		w.mu.Unlock()
	}
}

// found has those calls read a record for which the version that was found is new: it is
// greater than theirs, or the record is gone. A later version, of a group of this process, may
// have been passed to them since the query; reading then returns that one. The caller holds
// the lock.
func (w *watcher) found(key store.RecordKey, number, version int64) {
	if cached, ok := w.versions.get(number); ok && cached != version {
		w.versions.drop(number)
	}
	for a := range w.awaits[number] {
		if a.key == key && (version > a.after || version == 0 && a.after > 0) {
			a.unknown()
		}
	}
}

// versionCache has the versions of the records that this process wrote last, by the numbers
// of the records. 0 is that of a deleted record. It is two generations: when the young one
// is full, the old one is dropped.
type versionCache struct {
	young, old map[int64]int64
}

// generationSize is how many records a generation has.
const generationSize = 8192

func newVersionCache() versionCache { return versionCache{young: map[int64]int64{}} }

// put caches a version.
func (c *versionCache) put(number, version int64) {
	if len(c.young) >= generationSize {
		c.young, c.old = map[int64]int64{}, c.young
	}
	c.young[number] = version
}

// drop removes the version of a record.
func (c *versionCache) drop(number int64) {
	delete(c.young, number)
	delete(c.old, number)
}

// get returns the version of a record, if it is cached.
func (c *versionCache) get(number int64) (int64, bool) {
	if v, ok := c.young[number]; ok {
		return v, true
	}
	v, ok := c.old[number]
	return v, ok
}
