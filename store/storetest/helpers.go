package storetest

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// What a case uses unless it says otherwise.
const (
	theQueue  = "turns"
	theTenant = "acme"
	theRoute  = "order@1"
	theKind   = "instance"

	// theLease is how long a claim lasts.
	theLease = time.Minute

	// patience is how long a case waits, by the real clock, for what must happen. It
	// only ever passes when the case fails.
	patience = 30 * time.Second

	// caseLimit is how long a case may take, by the real clock, so that a call that
	// hangs fails its case and not the whole test.
	caseLimit = 4 * patience
)

// world is what a case runs in: a backend with an empty store, and words to talk
// about it. Its methods fail the case when the store does not do what they say, and
// so must be called by the goroutine of the case, unless they say otherwise.
type world struct {
	*Backend
	t       *testing.T
	ctx     context.Context
	factory Factory
}

// limits returns those of the store.
func (w *world) limits() store.Limits { return w.Store.Limits() }

func newWorld(t *testing.T, factory Factory) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	w := &world{Backend: factory(t), t: t, ctx: ctx, factory: factory}
	if now := w.now(); !now.Equal(now.Truncate(time.Millisecond)) {
		t.Fatalf("the clock of the store shows %v: the suite needs whole milliseconds", now)
	}
	return w
}

// Names.

// key returns the key of this name in the usual queue and tenant.
func key(name string) store.Key { return keyIn(theQueue, theTenant, name) }

func keyIn(queue, tenant, name string) store.Key {
	return store.Key{Queue: queue, Tenant: tenant, Name: name}
}

// recordKey returns the key of a record of the usual kind and tenant.
func recordKey(id string) store.RecordKey {
	return store.RecordKey{Kind: theKind, Tenant: theTenant, ID: id}
}

func ref(k store.Key, id string) store.MessageRef { return store.MessageRef{Key: k, ID: id} }

// Messages to put.

type messageOption func(*store.Message)

// msg returns a message that is visible at once and gives its key the usual route.
// Its body is bodyOf(id).
func msg(k store.Key, id string, options ...messageOption) store.Message {
	m := store.Message{Key: k, ID: id, Route: theRoute, Body: bodyOf(id)}
	for _, option := range options {
		option(&m)
	}
	return m
}

func bodyOf(id string) []byte { return []byte("body of " + id) }

// at makes the message visible at t.
func at(t time.Time) messageOption { return func(m *store.Message) { m.VisibleAt = t } }

// via makes route the route of the message's key.
func via(route string) messageOption { return func(m *store.Message) { m.Route = route } }

// noRoute leaves the route of the message's key as it is.
func noRoute() messageOption { return via("") }

// ifRouted drops the message if its key has no route.
func ifRouted() messageOption {
	return func(m *store.Message) { m.Route, m.IfRouted = "", true }
}

func withBody(body []byte) messageOption { return func(m *store.Message) { m.Body = body } }

func withTTL(ttl time.Duration) messageOption { return func(m *store.Message) { m.TTL = ttl } }

// Commits.

// commit commits tx: in several commits, if it is of tenants that the store keeps apart.
func (w *world) commit(tx *store.Tx) {
	w.t.Helper()
	parts := []*store.Tx{tx}
	if w.spans(tx) {
		parts = w.parts(tx)
	}
	for _, part := range parts {
		if err := w.Store.Commit(w.ctx, part); err != nil {
			w.t.Fatalf("commit: %v", err)
		}
	}
}

// commitErr commits what must fail with target.
func (w *world) commitErr(tx *store.Tx, target error) {
	w.t.Helper()
	w.isErr("commit", w.Store.Commit(w.ctx, tx), target)
}

// isErr checks that what failed, and with target.
func (w *world) isErr(what string, err, target error) {
	w.t.Helper()
	if !errors.Is(err, target) {
		w.t.Fatalf("%s: got error %v, want %v", what, err, target)
	}
}

// put puts messages with these IDs, visible at once, in one commit.
func (w *world) put(k store.Key, ids ...string) {
	w.t.Helper()
	messages := make([]store.Message, 0, len(ids))
	for _, id := range ids {
		messages = append(messages, msg(k, id))
	}
	w.putMessages(messages...)
}

// putMessages puts these messages in one commit.
func (w *world) putMessages(messages ...store.Message) {
	w.t.Helper()
	w.commit(&store.Tx{Put: messages})
}

// retime moves a pending message in a commit of its own.
func (w *world) retime(k store.Key, id string, t time.Time) {
	w.t.Helper()
	w.commit(&store.Tx{Retime: []store.Retime{{Ref: ref(k, id), VisibleAt: t}}})
}

// remove deletes pending messages in a commit of its own.
func (w *world) remove(k store.Key, ids ...string) {
	w.t.Helper()
	tx := &store.Tx{}
	for _, id := range ids {
		tx.Delete = append(tx.Delete, ref(k, id))
	}
	w.commit(tx)
}

// finishing returns what consumes the messages of a claim, except those named.
func finishing(c store.Claim, keep ...string) store.Finish {
	return store.Finish{Lease: c.Lease(), Keep: keep}
}

// finish consumes the messages of the claims in one commit.
func (w *world) finish(claims ...store.Claim) {
	w.t.Helper()
	w.commit(finishTx(claims...))
}

// finishTx returns the Tx that consumes the messages of the claims.
func finishTx(claims ...store.Claim) *store.Tx {
	tx := &store.Tx{}
	for _, c := range claims {
		tx.Finish = append(tx.Finish, finishing(c))
	}
	return tx
}

// Logs.

// entries returns texts as entries of a log.
func entries(texts ...string) [][]byte {
	list := make([][]byte, 0, len(texts))
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list
}

// append appends to a log in a commit of its own.
func (w *world) append(k store.Key, length int, texts ...string) {
	w.t.Helper()
	w.commit(&store.Tx{Append: []store.Append{{Key: k, At: length, Entries: entries(texts...)}}})
}

// readLog returns one page of a log.
func (w *world) readLog(k store.Key, from int) store.LogPage {
	w.t.Helper()
	page, err := w.Store.ReadLog(w.ctx, k, from)
	if err != nil {
		w.t.Fatalf("read log: %v", err)
	}
	return page
}

// logTexts returns all entries of a log.
func (w *world) logTexts(k store.Key) []string {
	w.t.Helper()
	texts := []string{}
	for entry, err := range store.Entries(w.ctx, w.Store, k, 0) {
		if err != nil {
			w.t.Fatalf("read log: %v", err)
		}
		texts = append(texts, string(entry))
	}
	return texts
}

// Records.

// putRecord puts a record that need not have any version.
func (w *world) putRecord(r store.Record) {
	w.t.Helper()
	w.commit(&store.Tx{PutRecords: []store.PutRecord{{Record: r, Expect: store.AnyVersion}}})
}

func (w *world) get(k store.RecordKey) store.Record {
	w.t.Helper()
	r, err := w.Store.Get(w.ctx, k)
	if err != nil {
		w.t.Fatalf("get: %v", err)
	}
	return r
}

// hasNoRecord checks that there is no such record.
func (w *world) hasNoRecord(k store.RecordKey) {
	w.t.Helper()
	_, err := w.Store.Get(w.ctx, k)
	w.isErr("get "+k.String(), err, store.ErrNotFound)
}

// What the store holds.

// pending returns all messages of a key that are not consumed.
func (w *world) pending(k store.Key) []store.Message {
	w.t.Helper()
	messages, err := w.Store.Pending(w.ctx, k, 0)
	if err != nil {
		w.t.Fatalf("pending: %v", err)
	}
	return messages
}

// pendingOne returns the only message of a key that is not consumed.
func (w *world) pendingOne(k store.Key) store.Message {
	w.t.Helper()
	messages := w.pending(k)
	if len(messages) != 1 {
		w.t.Fatalf("pending for %v: %v, want one", k, idsOf(messages))
	}
	return messages[0]
}

// isPending checks the IDs of all messages of a key that are not consumed.
func (w *world) isPending(k store.Key, ids ...string) {
	w.t.Helper()
	if got := idsOf(w.pending(k)); !slices.Equal(got, ids) {
		w.t.Fatalf("pending for %v: %v, want %v", k, got, ids)
	}
}

func (w *world) stats() store.Stats {
	w.t.Helper()
	stats, err := w.Store.Stats(w.ctx)
	if err != nil {
		w.t.Fatalf("stats: %v", err)
	}
	return stats
}

// routeStats returns the row of a queue and a route, and an empty one if there is
// none.
func (w *world) routeStats(queue, route string) store.RouteStats {
	w.t.Helper()
	for _, row := range w.stats().Routes {
		if row.Queue == queue && row.Route == route {
			return row
		}
	}
	return store.RouteStats{Queue: queue, Route: route}
}

// now returns the store's time.
func (w *world) now() time.Time {
	w.t.Helper()
	return w.stats().Now
}

// in returns the time d after the store's time.
func (w *world) in(d time.Duration) time.Time {
	w.t.Helper()
	return w.now().Add(d)
}

// Comparing.

// equal checks that got is want, deeply. Times must be compared with sameTime.
func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if !reflect.DeepEqual(got, want) {
		w.t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (w *world) sameTime(what string, got, want time.Time) {
	w.t.Helper()
	if !got.Equal(want) {
		w.t.Fatalf("%s: got %v, want %v (%v off)", what, got, want, got.Sub(want))
	}
}

// Goroutines.

// eventually returns when holds does, and fails the case if it does not come to that.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			w.t.Fatalf("waited %v in vain until %s", patience, what)
		}
		runtime.Gosched()
	}
}

// finishes returns when done is closed, and fails the case if it is not.
func (w *world) finishes(what string, done <-chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		w.t.Fatalf("waited %v in vain for %s", patience, what)
	}
}

// together calls f n times, all at once, and returns what the calls returned. A case
// must not be failed by f.
func together[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	start := make(chan struct{})
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			<-start
			results[i] = f(i)
		})
	}
	close(start)
	calls.Wait()
	return results
}
