package rows

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// twins is a core and the model, with one clock. What the core does in one group the
// model does one by one.
type twins struct {
	*testing.T
	*rand.Rand
	clock  *base.Manual
	d      *tables
	frame  *tableStore
	model  *memstore.Store
	leases []twinLease // live or lost
	bodies int
	did    []string
}

// twinLease is a lease on the same key on both sides.
type twinLease struct{ frame, model store.Lease }

func newTwins(t *testing.T, seed uint64) *twins {
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	d := newTables(clock)
	w := &twins{
		T: t, Rand: rand.New(rand.NewPCG(seed, 7)), clock: clock, d: d,
		frame: newTableStore(clock, d), model: memstore.New(memstore.Options{Clock: clock}),
	}
	t.Cleanup(func() {
		_, _ = w.frame.Close(), w.model.Close()
		if t.Failed() {
			t.Logf("seed %d:", seed)
			for _, line := range w.did {
				t.Log(line)
			}
		}
	})
	return w
}

// one draws one of a list.
func one[V any](r *rand.Rand, list ...V) V { return list[r.IntN(len(list))] }

// some draws up to n, and often none.
func some[V any](r *rand.Rand, n int, f func() V) (list []V) {
	for range max(0, r.IntN(2*n+1)-n) {
		list = append(list, f())
	}
	return list
}

func (w *twins) key() store.Key { return store.Key{Queue: "turns", Name: one(w.Rand, "k", "k", "l")} }

func (w *twins) record() store.RecordKey {
	return store.RecordKey{Kind: "instance", ID: one(w.Rand, "r", "r", "s")}
}

func (w *twins) ref() store.MessageRef {
	return store.MessageRef{Key: w.key(), ID: one(w.Rand, "1", "2", "3", "4")}
}

func (w *twins) body() []byte {
	w.bodies++
	return fmt.Append(nil, "body ", w.bodies)
}

func (w *twins) at() time.Time {
	return w.clock.Now().Add(one(w.Rand, 0, 0, -time.Second, 2*time.Millisecond, time.Second, time.Minute))
}

func (w *twins) lease() twinLease {
	made := store.Lease{Key: w.key(), Token: "made up"}
	if len(w.leases) == 0 || w.IntN(8) == 0 {
		return twinLease{made, made}
	}
	return w.leases[max(len(w.leases)-1-w.IntN(3), 0)]
}

// length draws what the log of a key may be long.
func (w *twins) length(key store.Key) int {
	page, err := w.model.ReadLog(w.Context(), key, 0)
	if err != nil {
		w.Fatal(err)
	}
	return max(page.Length+one(w.Rand, 0, 0, 0, 1, 1, 2, 3, -1), 0)
}

func (w *twins) version(key store.RecordKey) int64 {
	r, _ := w.model.Get(w.Context(), key)
	return one(w.Rand, store.AnyVersion, store.AnyVersion, r.Version, r.Version, r.Version+1, 0)
}

// txs draws a Tx for each side.
func (w *twins) txs() (frame, model *store.Tx) {
	tx := &store.Tx{
		Trim: some(w.Rand, 1, func() store.Trim { k := w.key(); return store.Trim{Key: k, Before: w.length(k)} }),
		Put: some(w.Rand, 3, func() store.Message {
			r := w.ref()
			return store.Message{
				Key: r.Key, ID: r.ID, Route: one(w.Rand, "", "a", "a", "b"), VisibleAt: w.at(), Body: w.body(),
				TTL: one(w.Rand, 0, 0, time.Millisecond, time.Second),
			}
		}),
		Retime: some(w.Rand, 1, func() store.Retime { return store.Retime{Ref: w.ref(), VisibleAt: w.at()} }),
		Delete: some(w.Rand, 1, w.ref),
	}
	if w.IntN(6) == 0 {
		tx.DeleteKeys = []store.Key{w.key()}
	}
	if w.IntN(3) == 0 {
		k := w.key()
		tx.Append = []store.Append{{Key: k, At: w.length(k), Tag: w.Uint64N(100), Entries: [][]byte{w.body(), w.body()}}}
	}
	if r := w.record(); w.IntN(3) == 0 {
		tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: r, Body: w.body()}, Expect: w.version(r)}}
	} else if e := w.version(r); w.IntN(4) == 0 && e != 0 {
		tx.DeleteRecords = []store.DeleteRecord{{Key: r, Expect: e}}
	}
	of, om := *tx, *tx
	if l := w.lease(); w.IntN(3) == 0 {
		keep := some(w.Rand, 2, func() string { return w.ref().ID })
		of.Finish, om.Finish = []store.Finish{{Lease: l.frame, Keep: keep}}, []store.Finish{{Lease: l.model, Keep: keep}}
	}
	return &of, &om
}

// operation draws an operation of the core, and what the model does for it.
func (w *twins) operation() (*call, func() error) {
	c := newCall(w.Context(), operation{}, 0)
	switch n := w.IntN(12); {
	case n < 2:
		l := w.lease()
		rf := store.Release{Lease: l.frame, After: one(w.Rand, 0, time.Millisecond, time.Second), Uncounted: w.IntN(2) == 0}
		rm := rf
		rm.Lease = l.model
		c.release = &rf
		w.note("release %v %v %v", rf.Lease, rf.After, rf.Uncounted)
		return c, func() error { return w.model.Release(w.Context(), rm) }
	case n < 3:
		l := w.lease()
		d := one(w.Rand, time.Millisecond, time.Second, time.Hour)
		c.renew = &renewal{lease: l.frame, d: d}
		w.note("renew %v for %v", l.frame, d)
		return c, func() error {
			lost, err := w.model.Renew(w.Context(), d, []store.Lease{l.model})
			if (len(lost) > 0) != c.renew.lost {
				w.Errorf("renew: lost is %v, and %d are lost in the model", c.renew.lost, len(lost))
			}
			return err
		}
	}
	of, om := w.txs()
	c.tx = of
	w.note("commit %+v", *of)
	return c, func() error { return w.model.Commit(w.Context(), om) }
}

func (w *twins) note(format string, args ...any) { w.did = append(w.did, fmt.Sprintf(format, args...)) }

// group does several operations in one group.
func (w *twins) group() {
	var calls []*call
	var then []func() error
	w.note("group:")
	for range 1 + w.IntN(6) {
		c, f := w.operation()
		calls, then = append(calls, c), append(then, f)
	}
	w.frame.run(calls, &trial{began: w.frame.clock.Now()})
	for i, f := range then {
		want := f()
		if got := calls[i].err; fmt.Sprint(got) != fmt.Sprint(want) {
			w.Errorf("operation %d of the group: %v, and in the model: %v", i, got, want)
		}
		if want == nil {
			w.did = append(w.did, fmt.Sprintf("    %d is done", i))
		}
	}
}

// claim claims the same on both sides, and lets what has expired go to quarantine.
func (w *twins) claim(routes ...string) {
	req := store.ClaimRequest{
		Queue: "turns", Routes: routes, Max: 10, Lease: one(w.Rand, 5*time.Millisecond, 2*time.Second, time.Hour),
		MaxMessages: one(w.Rand, 0, 1, 2), MaxAttempts: one(w.Rand, 0, 0, 1, 3),
	}
	w.note("claim %v for %v, %d messages, %d attempts", routes, req.Lease, req.MaxMessages, req.MaxAttempts)
	got, err := w.frame.Claim(w.Context(), req)
	want, wantErr := w.model.Claim(w.Context(), req)
	if err != nil || wantErr != nil {
		w.Fatal(errors.Join(err, wantErr))
	}
	byName := func(a, b store.Claim) int { return cmpKeys(a.Key, b.Key) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	for i := range min(len(got), len(want)) {
		w.leases = append(w.leases, twinLease{got[i].Lease(), want[i].Lease()})
		got[i].Token, want[i].Token = "", ""
	}
	w.same("claims", append([]store.Claim{}, got...), append([]store.Claim{}, want...))
}

func cmpKeys(a, b store.Key) int { return compareIDs(IDOf(a), IDOf(b)) }

func (w *twins) same(what string, got, want any) {
	w.Helper()
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s: got\n%+v\nand of the model\n%+v", what, got, want)
	}
}

// compare compares all that can be seen, and looks whether the rows agree with each other.
func (w *twins) compare() {
	w.Helper()
	ctx := w.Context()
	for _, name := range []string{"k", "l"} {
		key := store.Key{Queue: "turns", Name: name}
		got, _ := w.frame.Pending(ctx, key, 0)
		want, _ := w.model.Pending(ctx, key, 0)
		w.same("messages", append([]store.Message{}, got...), append([]store.Message{}, want...))
		gotLog, _ := w.frame.ReadLog(ctx, key, 0)
		wantLog, _ := w.model.ReadLog(ctx, key, 0)
		w.same("log", append([][]byte{}, gotLog.Entries...), append([][]byte{}, wantLog.Entries...))
		w.same("length", gotLog.Length, wantLog.Length)
	}
	for _, kind := range []string{"instance", store.KindQuarantine} {
		got, _ := w.frame.List(ctx, store.Query{Kind: kind})
		want, _ := w.model.List(ctx, store.Query{Kind: kind})
		w.same(kind, timeless(got.Records), timeless(want.Records))
	}
	w.d.verify(w.T)
}

// timeless returns records without when they went to quarantine: the model sees to that at
// the very moment, the core when the next claim is made.
func timeless(records []store.Record) []store.Record {
	all := append([]store.Record{}, records...)
	for i := range all {
		if all[i].Key.Kind == store.KindQuarantine {
			all[i].Key.ID, all[i].Time = "", time.Time{}
		}
	}
	slices.SortFunc(all, func(a, b store.Record) int { return bytes.Compare(a.Body, b.Body) })
	return all
}

// verify reports what the rows say that is not so.
func (d *tables) verify(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	tally := map[[2]string]int{}
	for id, row := range d.keys {
		all := d.all(row)
		tally[[2]string{row.Key.Queue, row.Route}] += len(all)
		first := int64(Never)
		for _, m := range all {
			at := m.Visible
			if row.Route == "" {
				at = m.Expires()
			}
			first = min(first, at)
			if m.Seq >= row.Seq {
				t.Errorf("%v: message %d is there and the next is %d", row.Key, m.Seq, row.Seq)
			}
		}
		if row.First != first || row.Count != len(all) || (row.Count == 0 && row.LogLength == 0) {
			t.Errorf("%v: first %d, want %d; %d messages, want %d", row.Key, row.First, first, row.Count, len(all))
		}
		for _, seq := range row.Delivered {
			if !slices.ContainsFunc(all, func(m MessageRow) bool { return m.Seq == seq }) || row.Token == "" {
				t.Errorf("%v: message %d was delivered by %q and is not there", row.Key, seq, row.Token)
			}
		}
		if len(d.entries[id]) != row.LogLength-row.LogFirst {
			t.Errorf("%v: %d entries, want those from %d to %d", row.Key, len(d.entries[id]), row.LogFirst, row.LogLength)
		}
	}
	for id := range d.messages {
		if d.keys[id] == nil && len(d.messages[id])+len(d.entries[id]) > 0 {
			t.Errorf("there are messages or entries of a key that is not there")
		}
	}
	for partition, n := range d.tally {
		if n != tally[partition] {
			t.Errorf("%d are pending in %v, and the tally says %d", tally[partition], partition, n)
		}
	}
}

// TestGroupIsWorkedOutLikeOneByOne gathers random operations on the same few keys, messages
// and records into groups for certain, and compares each verdict, and all that can be
// seen, with the model that does them one after another.
func TestGroupIsWorkedOutLikeOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTwins(t, seed)
			for range 40 {
				w.group()
				w.compare()
				switch w.IntN(4) {
				case 0:
					w.note("advance")
					w.clock.Advance(one(w.Rand, time.Millisecond, 10*time.Millisecond, time.Second, time.Minute))
					w.claim("nobody") // what has expired goes to quarantine with it
				case 1, 2:
					w.claim(one(w.Rand, []string{"a"}, []string{"a", "b"}, []string{"a", "b"})...)
				}
				w.compare()
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}
