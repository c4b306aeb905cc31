package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
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
	s, err := Open(h.t.Context(), "data", Options{Clock: h.clock, Logger: quiet(), fs: h.fs, tune: small, limits: &h.limits})
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
