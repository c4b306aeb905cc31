package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// tiny makes most limits matter: what is due does not fit into the window, bodies
// are read from disk, and hardly anything is remembered. A key may still have as
// many messages in memory as the contract lets a claim deliver.
var tiny = limits{window: 2, load: 1, refs: store.DefaultMessages, body: 4, keys: 1, records: 1, journal: 128}

// TestSuiteWithTinyLimits proves the whole contract again where nothing fits.
func TestSuiteWithTinyLimits(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) *storetest.Backend {
		t.Helper()
		h := newHouse(t, tiny)
		b := &storetest.Backend{Store: h.Store, Advance: h.clock.Advance}
		b.Reopen = func() {
			h.reopen()
			b.Store = h.Store
		}
		return b
	})
}

// house is a store on a file system in memory that can be opened again.
type house struct {
	*Store
	t      testing.TB
	fs     vfs.FS
	clock  *base.Manual
	limits limits
}

func newHouse(t testing.TB, lim limits) *house {
	t.Helper()
	h := &house{t: t, fs: vfs.NewMem(), clock: base.NewManual(start), limits: lim}
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *house) open() {
	h.t.Helper()
	s, err := Open(h.t.Context(), "data", Options{Clock: h.clock, Logger: quiet(), fs: h.fs, tune: roomy, limits: &h.limits})
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.Store = s
}

func (h *house) close() {
	h.t.Helper()
	if err := h.Store.Close(); err != nil {
		h.t.Errorf("close: %v", err)
	}
}

func (h *house) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

func (h *house) commit(tx *store.Tx) {
	h.t.Helper()
	if err := h.Commit(h.t.Context(), tx); err != nil {
		h.t.Fatalf("commit: %v", err)
	}
}

// claim claims up to limit keys of the queue turns, with up to perKey messages each.
func (h *house) claim(limit, perKey int) []store.Claim {
	h.t.Helper()
	claims, err := h.Claim(h.t.Context(), store.ClaimRequest{
		Queue: "turns", Routes: []string{"serve"}, Max: limit, MaxMessages: perKey, Lease: time.Hour,
	})
	if err != nil {
		h.t.Fatalf("claim: %v", err)
	}
	return claims
}

// message returns a message with a number, for a key with a number.
func message(key, n int, at time.Time) store.Message {
	return store.Message{
		Key: store.Key{Queue: "turns", Tenant: "acme", Name: "key-" + strconv.Itoa(key)},
		ID:  fmt.Sprintf("m%06d", n), Route: "serve", VisibleAt: at, Body: []byte(strconv.Itoa(n)),
	}
}

// putAll puts messages, a few hundred in a commit.
func (h *house) putAll(messages []store.Message) {
	h.t.Helper()
	for len(messages) > 0 {
		n := min(len(messages), 500)
		h.commit(&store.Tx{Put: messages[:n]})
		messages = messages[n:]
	}
}

// order checks that the messages of a key come in the order of their numbers, each
// once.
type order struct {
	t    testing.TB
	next map[string]int
	all  int
}

func newOrder(t testing.TB) *order { return &order{t: t, next: map[string]int{}} }

func (o *order) see(claims []store.Claim) {
	o.t.Helper()
	for _, c := range claims {
		for _, m := range c.Messages {
			n, err := strconv.Atoi(string(m.Body))
			if err != nil {
				o.t.Fatal(err)
			}
			if want := o.next[c.Key.Name]; n != want {
				o.t.Fatalf("%v: message %d was delivered when %d should have been", c.Key, n, want)
			}
			o.next[c.Key.Name]++
			o.all++
		}
	}
}

// finish consumes what was claimed.
func (h *house) finish(claims []store.Claim) {
	h.t.Helper()
	tx := &store.Tx{}
	for i := range claims {
		tx.Finish = append(tx.Finish, store.Finish{Lease: claims[i].Lease()})
	}
	h.commit(tx)
}

func TestMoreMessagesThanTheWindowHolds(t *testing.T) {
	t.Parallel()
	const keys, each = 4_000, 5
	h := newHouse(t, defaultLimits)
	var messages []store.Message
	for i := range keys * each {
		messages = append(messages, message(i%keys, i/keys, time.Time{}))
	}
	h.putAll(messages)
	seen := newOrder(t)
	for {
		claims := h.claim(700, 3)
		if len(claims) == 0 {
			break
		}
		seen.see(claims)
		h.finish(claims)
	}
	if seen.all != keys*each {
		t.Errorf("%d messages were delivered, want %d", seen.all, keys*each)
	}
}

// TestKeyWithMoreMessagesThanAreKnown drains keys that have far more messages than
// are kept in memory, while more arrive, and others want to be served.
func TestKeyWithMoreMessagesThanAreKnown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limits limits
		count  int
	}{
		{"by default", defaultLimits, 5_000},
		{"with few known", limits{window: 64, load: 4, refs: 8, body: 2, keys: 16, records: 16, journal: 1024}, 1_000},
		{"with hardly any known", limits{window: 2, load: 1, refs: 2, body: 2, keys: 1, records: 1, journal: 1024}, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, tt.limits)
			seen := newOrder(t)
			rnd := rand.New(rand.NewPCG(1, uint64(tt.count)))
			put := 0
			putMore := func(n int) {
				var messages []store.Message
				for range n {
					messages = append(messages, message(0, put, time.Time{}))
					put++
				}
				h.putAll(messages)
			}
			putMore(tt.count / 2)
			for others := 0; seen.next["key-0"] < tt.count; others++ {
				claims := h.claim(10, 1+rnd.IntN(2*tt.limits.refs))
				if len(claims) == 0 {
					t.Fatalf("nothing is ready after %d of %d messages", seen.next["key-0"], put)
				}
				seen.see(claims)
				// Others are served while the key is leased.
				h.putAll([]store.Message{message(1+others, 0, time.Time{})})
				other := h.claim(10, 0)
				if len(other) != 1 || other[0].Key.Name != "key-"+strconv.Itoa(1+others) {
					t.Fatalf("claimed %d keys, want the one that is not leased", len(other))
				}
				if put < tt.count {
					putMore(min(tt.count-put, 1+rnd.IntN(tt.count/10)))
				}
				h.clock.Advance(time.Millisecond)
				h.finish(append(claims, other...))
				if rnd.IntN(20) == 0 {
					h.reopen()
				}
			}
		})
	}
}

// msgLocations returns the locations of all messages on disk.
func (h *house) msgLocations() (locations []pos) {
	h.t.Helper()
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagMsg}, UpperBound: []byte{tagMsg + 1}})
	if err != nil {
		h.t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		locations = append(locations, parseMsgKey(it.Key()))
	}
	if err := closeIter(it, nil); err != nil {
		h.t.Fatal(err)
	}
	return locations
}

// cursor returns the cursor of the only partition, or the greatest position if the partition
// was dropped.
func (h *house) cursor() pos {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.partitionsByID {
		return l.cursor
	}
	return maxPos
}

// TestConsumedMessagesAreNotLookedAtAgain is about the location from which on a partition is
// loaded after a restart: after all that was consumed, but not after what was not.
func TestConsumedMessagesAreNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	const count, kept = 3_000, 2_000
	h := newHouse(t, defaultLimits)
	var messages []store.Message
	for i := range count {
		messages = append(messages, message(i, 0, time.Time{}))
	}
	h.putAll(messages)
	locations := h.msgLocations()
	for done := 0; done < kept; done += 100 {
		h.finish(h.claim(100, 0))
	}
	h.reopen()
	if c := h.cursor(); locations[kept].less(c) || c.less(locations[kept-1]) {
		t.Errorf("after %d of %d messages were consumed, the partition is loaded from %v on, want %v", kept, count, c, locations[kept])
	}
	rest := h.claim(count, 0)
	if len(rest) != count-kept {
		t.Fatalf("%d keys were claimed, want the %d that are left", len(rest), count-kept)
	}
	// The first that is left stays, and all that come after it go.
	h.finish(rest[1:])
	h.reopen()
	if c := h.cursor(); locations[kept].less(c) {
		t.Errorf("the partition is loaded from %v on, and there is a message at %v", c, locations[kept])
	}
	last := h.claim(count, 0)
	if len(last) != 1 || last[0].Key != rest[0].Key {
		t.Fatalf("claimed %d keys, want the one that is left", len(last))
	}
	h.finish(last)
	h.putAll([]store.Message{message(0, 1, time.Time{})})
	h.finish(h.claim(1, 0))
	h.reopen()
	if c := h.cursor(); c.less(locations[count-1]) {
		t.Errorf("after all messages were consumed, the partition is loaded from %v on, want %v", c, locations[count-1])
	}
}

// inMemory returns how many keys and how many messages of partitions are in memory.
func (h *house) inMemory() (keys, messages int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.partitionsByID {
		messages += l.window.live
	}
	return len(h.keys.byKey), messages
}

// TestPendingMessagesCostNoMemory puts many messages of as many keys, first to wait
// and then to be claimed.
func TestPendingMessagesCostNoMemory(t *testing.T) {
	t.Parallel()
	count := 8_000
	if testenv.Long() {
		count = 50_000
	}
	lim := limits{window: 256, load: 64, refs: 100, body: 64, keys: 128, records: 128, journal: 64 << 10}
	h := newHouse(t, lim)
	due := start.Add(time.Hour)
	var messages []store.Message
	for i := range count {
		messages = append(messages, message(i, 0, due.Add(time.Duration(i)*time.Millisecond)))
	}
	h.putAll(messages)
	bounded := func(when string) {
		t.Helper()
		keys, loaded := h.inMemory()
		if most := lim.keys + lim.window + lim.load; keys > most || loaded > most {
			t.Errorf("%s, %d keys and %d messages are in memory, want %d at most", when, keys, loaded, most)
		}
	}
	bounded("with messages that wait")
	h.clock.Advance(24 * time.Hour)
	for claimed := 0; claimed < 1_000; claimed += 50 {
		claims := h.claim(50, 0)
		if len(claims) != 50 {
			t.Fatalf("%d keys were claimed, want 50", len(claims))
		}
		h.finish(claims)
		bounded(fmt.Sprintf("with messages that are due, after %d", claimed))
	}
	h.reopen()
	h.finish(h.claim(50, 0))
	bounded("after it was opened again")
}

// TestForgottenKeys uses many more keys and records than are remembered, in any order.
func TestForgottenKeys(t *testing.T) {
	t.Parallel()
	const keys, commits, each = 300, 150, 10
	h := newHouse(t, limits{window: 4, load: 4, refs: 4, body: 4, keys: 8, records: 8, journal: 1024})
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	length, pending := map[int]int{}, map[int]int{}
	record := func(i int) store.RecordKey { return store.RecordKey{Kind: kind, ID: strconv.Itoa(i)} }
	for n := range commits {
		tx := &store.Tx{}
		for _, i := range rnd.Perm(keys)[:each] {
			m := message(i, pending[i], start.Add(time.Hour))
			tx.Append = append(tx.Append, store.Append{Key: m.Key, At: length[i], Entries: [][]byte{{1}}})
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: record(i)}, Expect: int64(length[i])})
			length[i]++
			if pending[i] > 2 && rnd.IntN(2) == 0 {
				pending[i]--
				tx.Delete = append(tx.Delete, store.MessageRef{Key: m.Key, ID: message(i, pending[i], time.Time{}).ID})
			} else {
				tx.Put = append(tx.Put, m)
				pending[i]++
			}
		}
		h.commit(tx)
		if n%50 == 49 {
			h.reopen()
		}
	}
	for i := range keys {
		key := message(i, 0, time.Time{}).Key
		page, err := h.ReadLog(t.Context(), key, 0)
		if err != nil || page.Length != length[i] {
			t.Fatalf("the log of %v has length %d, want %d: %v", key, page.Length, length[i], err)
		}
		messages, err := h.Pending(t.Context(), key, 0)
		if err != nil || len(messages) != pending[i] {
			t.Fatalf("%d messages of %v are pending, want %d: %v", len(messages), key, pending[i], err)
		}
	}
}

// TestFloorStaysBeforeWhatIsUnderWay consumes a message while another one, which comes
// before it, is not on disk yet: after a restart, that one must be found.
func TestFloorStaysBeforeWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := &house{t: t, fs: g, clock: base.NewManual(start), limits: defaultLimits}
	h.open()
	later, earlier := message(1, 0, start.Add(5*time.Millisecond)), message(2, 0, time.Time{})
	h.commit(&store.Tx{Put: []store.Message{later}})

	// One group is being synced, the next one is applied and waits for it, and all that
	// comes is added to a third one.
	open := g.close(func(path string) bool { return strings.HasSuffix(path, ".log") })
	var wg sync.WaitGroup
	commit := func(tx *store.Tx) {
		wg.Go(func() {
			if err := h.Commit(t.Context(), tx); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
	}
	record := func(id string) *store.Tx {
		return &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: kind, ID: id}}}}}
	}
	commit(record("synced"))
	eventually(t, "a group is being synced", func() bool { return g.waits.Load() == 1 })
	commit(record("applied"))
	eventually(t, "the next group is applied", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.inFlight) == 3 && h.inFlight[1].applied
	})
	commit(&store.Tx{Put: []store.Message{earlier}})
	eventually(t, "the third one is open", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.openGroup.used
	})
	h.clock.Advance(10 * time.Millisecond)
	claims := h.claim(10, 0)
	if len(claims) != 1 || claims[0].Key != later.Key {
		t.Fatalf("claimed %v, want %v", claims, later.Key)
	}
	commit(&store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}})
	eventually(t, "the message is consumed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.leases.len() == 0
	})
	open()
	wg.Wait()
	h.reopen()
	if claims := h.claim(10, 0); len(claims) != 1 || claims[0].Key != earlier.Key {
		t.Errorf("claimed %v after a restart, want %v", claims, earlier.Key)
	}
	h.close()
}
