package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// commitTogether commits several Txs as one group, in their order, and returns the outcome of each.
func commitTogether(t testing.TB, s *Store, txs ...*store.Tx) []error {
	t.Helper()
	hold(s)
	errs := make([]error, len(txs))
	var results sync.WaitGroup
	for i, tx := range txs {
		if tx.Empty() || tx.Validate() != nil {
			t.Fatalf("%+v does not get to a group", tx)
		}
		results.Go(func() { errs[i] = s.Commit(context.Background(), tx) })
		eventually(t, "the commit waits for others", func() bool { return pendingCommits(s) == i+1 })
	}
	unhold(s)
	results.Wait()
	return errs
}

// hold makes commits queue until unhold.
func hold(s *Store) {
	s.segments[0].commits.Lock()
	defer s.segments[0].commits.Unlock()
	s.segments[0].commits.groupsInFlight += maxGroupsInFlight
}

func unhold(s *Store) {
	s.segments[0].commits.Lock()
	defer s.segments[0].commits.Unlock()
	s.segments[0].commits.groupsInFlight -= maxGroupsInFlight
	s.sendGroups(s.segments[0])
}

func pendingCommits(s *Store) int {
	s.segments[0].commits.Lock()
	defer s.segments[0].commits.Unlock()
	return len(s.segments[0].commits.pending)
}

func TestAGroupIsOneScriptAndOneConflictFailsNobodyElse(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	put(t, s, message("other", "warm-up", "a"))
	entry := func(name string, at int) *store.Tx {
		return &store.Tx{Append: []store.Append{{Key: message("turns", name, "").Key, At: at, Entries: [][]byte{[]byte(name)}}}}
	}
	record := func(id string, expect int64) *store.Tx {
		p := putRecord(id)
		p.Expect = expect
		return &store.Tx{PutRecords: []store.PutRecord{p}, Put: []store.Message{message("turns", id, id)}}
	}
	gone := &store.Tx{Finish: []store.Finish{{Lease: store.Lease{Key: message("turns", "a", "").Key, Token: "no token"}}}}
	before := calls(t, server, "evalsha")
	errs := commitTogether(t, s, entry("a", 0), entry("a", 0), entry("a", 1), record("r", 0), record("r", 0), gone, record("r", 1), entry("b", 0))
	if n := calls(t, server, "evalsha") - before; n != 1 {
		t.Errorf("the group took %d scripts, want one", n)
	}
	want := []error{nil, store.ErrConflict, nil, nil, store.ErrConflict, store.ErrClaimLost, nil, nil}
	for i := range want {
		if !errors.Is(errs[i], want[i]) || want[i] == nil && errs[i] != nil {
			t.Errorf("commit %d: got %v, want %v", i, errs[i], want[i])
		}
	}
	page, err := s.ReadLog(t.Context(), message("turns", "a", "").Key, 0)
	if err != nil || page.Length != 2 {
		t.Errorf("the log has length %d, error %v, want the two entries that fitted", page.Length, err)
	}
	if r, err := s.Get(t.Context(), putRecord("r").Record.Key); err != nil || r.Version != 2 {
		t.Errorf("the record has version %d, error %v, want 2", r.Version, err)
	}
	verifies(t, s)
}

func TestAGroupEndsAtSoManyThings(t *testing.T) {
	t.Parallel()
	of := func(things, size int) *pendingCommit {
		return &pendingCommit{ops: things, tx: string(make([]byte, size))}
	}
	for _, row := range []struct {
		name  string
		calls []*pendingCommit
		want  int
	}{
		{"few", []*pendingCommit{of(1, 1), of(1, 1)}, 2},
		{"many", slices.Repeat([]*pendingCommit{of(1, 1)}, maxGroupCommits+1), maxGroupCommits},
		{"things", []*pendingCommit{of(maxGroupOps-1, 1), of(1, 1), of(1, 1)}, 2},
		{"bytes", []*pendingCommit{of(1, maxGroupBytes-1), of(1, 1), of(1, 1)}, 2},
		{"a large one comes second", []*pendingCommit{of(1, 1), of(maxGroupOps, 1)}, 1},
		{"a large one comes first", []*pendingCommit{of(2*maxGroupOps, 1), of(1, 1)}, 1},
		{"a heavy one comes first", []*pendingCommit{of(1, 2*maxGroupBytes), of(1, 1)}, 1},
	} {
		g := commitQueue{pending: row.calls}
		if n := len(g.nextGroup()); n != row.want || len(g.pending) != len(row.calls)-row.want {
			t.Errorf("%s: took %d of %d and left %d, want %d", row.name, n, len(row.calls), len(g.pending), row.want)
		}
	}
}

func TestACommitThatNobodyWaitsForBeforeItBeginsIsNotMade(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	hold(s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Commit(ctx, &store.Tx{Put: []store.Message{message("turns", "a", "a")}}) }()
	eventually(t, "the commit waits for others", func() bool { return pendingCommits(s) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that it was cancelled", err)
	}
	unhold(s)
	put(t, s, message("turns", "b", "b"))
	if claims := claim(t, s, request("turns", 0)); len(claims) != 1 || claims[0].Key.Name != "b" {
		t.Errorf("claimed %v, want only what was committed", claims)
	}
}

func TestAFullServerRefusesOfAGroupOnlyWhatNeedsMemory(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	put(t, s, message("turns", "a", "a"), message("turns", "b", "b"))
	claims := claim(t, s, request("turns", 0))
	if len(claims) != 2 {
		t.Fatalf("claimed %d keys, want two", len(claims))
	}
	must(t, server, "CONFIG", "SET", "maxmemory", "1")
	finish := func(i int) *store.Tx { return &store.Tx{Finish: []store.Finish{{Lease: claims[i].Lease()}}} }
	grow := &store.Tx{Put: []store.Message{message("turns", "c", "c")}}
	lost := &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}, Put: grow.Put}
	errs := commitTogether(t, s, finish(0), grow, lost, finish(1))
	must(t, server, "CONFIG", "SET", "maxmemory", "0")
	want := []error{nil, store.ErrFull, store.ErrClaimLost, nil}
	for i := range want {
		if !errors.Is(errs[i], want[i]) || want[i] == nil && errs[i] != nil {
			t.Errorf("commit %d: got %v, want %v", i, errs[i], want[i])
		}
	}
	verifies(t, s)
	if stats, err := s.Stats(t.Context()); err != nil || len(stats.Routes) != 0 {
		t.Errorf("there is %v, error %v, want nothing", stats, err)
	}
}

// TestAGroupDoesWhatItsCommitsDoOneByOne commits the same at random to two stores: in groups,
// with a call that waits for what they put, and one by one. The outcome of each, what is
// claimed and all that there is must be the same.
func TestAGroupDoesWhatItsCommitsDoOneByOne(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	for round := range 12 {
		seed := uint64(time.Now().UnixNano())
		when := fmt.Sprintf("seed %d, round %d", seed, round)
		clock := base.NewManual(start)
		in := open(t, Options{Addresses: []string{server.Addr}, Clock: clock, poll: never})
		by := open(t, Options{Addresses: []string{server.Addr}, Clock: clock, poll: never})
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test that can be repeated
		var claims [2][]store.Claim
		waiting := waitsFor(t, in, anything(time.Hour))
		collect := func() {
			t.Helper()
			eventually(t, "no attempt is made", func() bool { return idle(in) })
			var got []store.Claim
			if in.waiting() == 0 {
				got = waiting()
			}
			got = append(got, claim(t, in, anything(0))...)
			if in.waiting() == 0 {
				waiting = waitsFor(t, in, anything(time.Hour))
			}
			want := claim(t, by, anything(0))
			if shown(got) != shown(want) {
				t.Fatalf("%s: of a group was claimed\n%s\none by one\n%s", when, shown(got), shown(want))
			}
			claims[0], claims[1] = append(claims[0], got...), append(claims[1], want...)
		}
		for range 12 {
			var txs [2][]*store.Tx
			for range 1 + r.IntN(8) {
				state := r.Uint64()
				for i := range txs {
					txs[i] = append(txs[i], randomTx(rand.New(rand.NewPCG(state, 1)), claims[i])) //nolint:gosec // the same for both
				}
			}
			got := commitTogether(t, in, txs[0]...)
			for i, tx := range txs[1] {
				if want := by.Commit(t.Context(), tx); fmt.Sprint(got[i]) != fmt.Sprint(want) {
					t.Fatalf("%s: commit %d of a group: %v; alone: %v", when, i, got[i], want)
				}
			}
			collect()
			compare(t, when, in, by)
			for range r.IntN(4) { // all times are whole seconds
				clock.Advance(time.Second)
				collect()
			}
		}
	}
}

func anything(wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: "turns", Routes: []string{"x", "y"}, Max: 100, Lease: 5 * time.Second, Wait: wait}
}

// shown returns claims as text, in the order of their keys, which they have then.
func shown(claims []store.Claim) string {
	slices.SortFunc(claims, func(a, b store.Claim) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	var lines strings.Builder
	for i := range claims {
		c := &claims[i]
		fmt.Fprintf(&lines, "%v on %s, log %d of %d, until %v:", c.Key, c.Route, c.LogLength, c.LogTag, c.Until)
		for _, m := range c.Messages {
			fmt.Fprintf(&lines, " %s from %v, attempt %d, %d bytes;", m.ID, m.VisibleAt, m.Attempt, len(m.Body))
		}
		lines.WriteByte('\n')
	}
	return lines.String()
}

// randomTx returns a Tx that meets others often, and may be refused.
func randomTx(r *rand.Rand, claims []store.Claim) *store.Tx {
	key := func() store.Key {
		return store.Key{Queue: "turns", Tenant: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(3))}
	}
	id := func() string { return fmt.Sprint(r.IntN(3)) }
	at := func() time.Time { return start.Add(time.Duration(r.IntN(40)-10) * time.Second) }
	tx := &store.Tx{}
	if len(claims) > 0 && r.IntN(2) == 0 {
		c := claims[max(0, len(claims)-1-r.IntN(3))]
		f := store.Finish{Lease: store.Lease{Key: c.Key, Token: c.Token}}
		if r.IntN(3) == 0 {
			f.Keep = []string{id()}
		}
		tx.Finish = append(tx.Finish, f)
	}
	for range r.IntN(3) {
		m := store.Message{Key: key(), ID: id(), Route: []string{"", "x", "y"}[r.IntN(3)], Body: make([]byte, r.IntN(40)*r.IntN(200))}
		if r.IntN(3) == 0 {
			m.VisibleAt = at()
		}
		tx.Put = append(tx.Put, m)
	}
	switch r.IntN(8) {
	case 0:
		tx.DeleteKeys = append(tx.DeleteKeys, key())
	case 1:
		tx.Retime = append(tx.Retime, store.Retime{Ref: store.MessageRef{Key: key(), ID: id()}, VisibleAt: at()})
	case 2:
		tx.Delete = append(tx.Delete, store.MessageRef{Key: key(), ID: id()})
	case 3:
		tx.Trim = append(tx.Trim, store.Trim{Key: key(), Before: r.IntN(2)})
	case 4:
		tx.Append = append(tx.Append, store.Append{Key: key(), At: r.IntN(3), Tag: r.Uint64(), Entries: [][]byte{[]byte("entry")}})
	}
	record := store.RecordKey{Kind: "instance", Tenant: fmt.Sprint(r.IntN(2)), ID: id()}
	switch r.IntN(4) {
	case 0:
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Expect: int64(r.IntN(4) - 1), Record: store.Record{Key: record, Status: id(), Time: at(), Body: []byte(id())}})
	case 1:
		tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: record, Expect: []int64{-1, 1, 2}[r.IntN(3)]})
	}
	if tx.Empty() {
		tx.Put = []store.Message{{Key: key(), ID: id()}}
	}
	return tx
}

// compare checks that two stores hold the same, and that neither contradicts itself.
func compare(t testing.TB, when string, a, b *Store) {
	t.Helper()
	var parcels [2]store.Parcel
	var stats [2]store.Stats
	for i, s := range []*Store{a, b} {
		verifies(t, s)
		var err error
		if parcels[i], err = s.Export(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if stats[i], err = s.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		stats[i].Bytes = 0
	}
	if !reflect.DeepEqual(parcels[0], parcels[1]) {
		for i := range parcels { // sizes tell enough
			for j := range parcels[i].Messages {
				m := &parcels[i].Messages[j]
				m.Body = fmt.Append(nil, len(m.Body))
			}
		}
		t.Fatalf("%s: a group has made\n%+v\none by one they make\n%+v", when, parcels[0], parcels[1])
	}
	if !bytes.Equal(fmt.Append(nil, stats[0].Routes), fmt.Append(nil, stats[1].Routes)) || stats[0].Leases != stats[1].Leases {
		t.Fatalf("%s: a group counts %+v, one by one they count %+v", when, stats[0], stats[1])
	}
}
