package pebblestore

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// TestAnOverdueAlarmIsNotPutOff lets a call set the alarm for its own queue when that
// of another queue is about to go off: the calls that wait there would not be woken.
func TestAnOverdueAlarmIsNotPutOff(t *testing.T) {
	t.Parallel()
	clock := newLateClock()
	s := openOn(t, vfs.NewMem(), clock, defaultLimits)
	m := message(0, 0, time.Time{})
	m.Key.Queue = "other"
	commitTo(t, s, &store.Tx{Put: []store.Message{m, message(1, 1, start.Add(50*time.Second))}})
	req := upTo(1, time.Second, 0)
	req.Queue = "other"
	claimFrom(t, s, req, 1)
	req.Wait = time.Hour
	other := startClaim(t, s, req)
	s.calls(t, 1)
	clock.move(time.Second) // the lease ends now
	startClaim(t, s, upTo(1, time.Hour, time.Hour))
	s.calls(t, 2)
	clock.fire()
	served(t, "the key whose lease has ended is claimed", other)
}

// TestAReleaseSetsTheAlarmForTheLeaseThatItStarts releases a key to a call whose lease
// ends before the alarm that is set: the next call that waits must not wait for that.
func TestAReleaseSetsTheAlarmForTheLeaseThatItStarts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, defaultLimits)
	h.commit(&store.Tx{Put: []store.Message{message(0, 0, time.Time{})}})
	c := claimFrom(t, h.Store, upTo(1, 50*time.Second, 0), 1)[0]
	first := startClaim(t, h.Store, upTo(1, time.Second, time.Hour))
	h.calls(t, 1)
	second := startClaim(t, h.Store, upTo(1, time.Second, time.Hour))
	h.calls(t, 2)
	h.clock.Advance(time.Second)
	if err := h.Release(t.Context(), store.Release{Lease: c.Lease()}); err != nil {
		t.Fatal(err)
	}
	served(t, "the first call gets the key", first)
	h.clock.Advance(time.Second)
	served(t, "the second call gets the key when the lease of the first ends", second)
}

// TestAFinishThatKeepsAllMessagesWakesAWaitingCall finishes a claim without consuming
// anything: no partition changes, and still the key can be claimed again.
func TestAFinishThatKeepsAllMessagesWakesAWaitingCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, defaultLimits)
	h.commit(&store.Tx{Put: []store.Message{message(0, 0, time.Time{})}})
	c := claimFrom(t, h.Store, upTo(1, time.Hour, 0), 1)[0]
	waits := startClaim(t, h.Store, upTo(1, time.Second, time.Hour))
	h.calls(t, 1)
	h.commit(&store.Tx{Finish: []store.Finish{{Lease: c.Lease(), Keep: ids(c)}}})
	if got := served(t, "the call gets the key", waits); !slices.Equal(ids(got), ids(c)) {
		t.Errorf("delivered %q, want %q", ids(got), ids(c))
	}
}

// TestCallsThatAwaitARecordShareNothing changes what one call has returned: the other
// must not see it.
func TestCallsThatAwaitARecordShareNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, defaultLimits)
	key := store.RecordKey{Kind: kind, ID: "a"}
	got := make(chan store.Record, 2)
	for range 2 {
		go func() {
			rec, err := h.Await(t.Context(), key, 0)
			if err != nil {
				t.Errorf("await: %v", err)
			}
			got <- rec
		}()
	}
	h.holds(t, "two calls have found nothing yet", func() bool {
		e := h.records.get(key)
		if e == nil || e.value.readers.Len() != 2 {
			return false
		}
		readers := e.value.readers.All()
		return len(readers[0].News) == 0 && len(readers[1].News) == 0
	})
	letOthersRun()
	h.commit(&store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key, Body: []byte("body"), Tags: map[string]string{"a": "b"}}}}})
	one, other := soon(t, "one call returns", got), soon(t, "the other call returns", got)
	if string(one.Body) != "body" || one.Tags["a"] != "b" {
		t.Fatalf("one call has got %q and %v", one.Body, one.Tags)
	}
	one.Body[0], one.Tags["a"] = 'X', "X"
	if string(other.Body) != "body" || other.Tags["a"] != "b" {
		t.Errorf("the other call has got %q and %v", other.Body, other.Tags)
	}
}

// TestQuarantineIsThereWhenClaimReturns holds up the sync of what goes to quarantine:
// a caller of Claim relies on finding it there.
func TestQuarantineIsThereWhenClaimReturns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		expire bool // the message expires, or else has too many attempts
		swept  bool // the alarm has found it before the claim does
	}{
		{"expired and found by the claim", true, false},
		{"expired and found by the alarm", true, true},
		{"too many attempts", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, clock := newGate(), newLateClock()
			s := openOn(t, g, clock, defaultLimits)
			req := upTo(1, time.Hour, 0)
			if tt.expire {
				commitTo(t, s, &store.Tx{Put: []store.Message{unrouted()}})
			} else {
				commitTo(t, s, &store.Tx{Put: []store.Message{message(0, 0, time.Time{})}})
				c := claimFrom(t, s, req, 1)[0]
				if err := s.Release(t.Context(), store.Release{Lease: c.Lease()}); err != nil {
					t.Fatal(err)
				}
				req.MaxAttempts = 1
			}
			open := hold(t, g)
			var commits [2]<-chan error // with two under way, what comes next is not applied
			for i := range commits {
				m := message(1+i, 0, time.Time{})
				m.Route = "other"
				commits[i] = startCommit(t, s, &store.Tx{Put: []store.Message{m}})
				s.underWay(t, 1+i)
			}
			clock.move(time.Second)
			fired := make(chan struct{})
			go func() {
				defer close(fired)
				if tt.swept {
					clock.fire()
				}
			}()
			if tt.swept {
				s.underWay(t, 3)
			}
			var held atomic.Bool
			held.Store(true)
			early, there := make(chan bool, 1), make(chan int, 1)
			go func() {
				claims, err := s.Claim(t.Context(), req)
				early <- held.Load()
				if err != nil || len(claims) != 0 {
					t.Errorf("claimed %d keys, %v, want none", len(claims), err)
				}
				page, err := s.List(t.Context(), store.Query{Kind: store.KindQuarantine})
				if err != nil {
					t.Errorf("list: %v", err)
				}
				there <- len(page.Records)
			}()
			s.underWay(t, 3)
			letOthersRun()
			held.Store(false)
			open()
			if soon(t, "the claim ends", early) {
				t.Error("Claim has returned before what it sent to quarantine was durable")
			}
			if n := soon(t, "quarantine is listed", there); n != 1 {
				t.Errorf("%d messages are in quarantine when Claim returns, want 1", n)
			}
			for _, done := range commits {
				if err := soon(t, "a commit ends", done); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
			soon(t, "the alarm ends", fired)
		})
	}
}

// TestKeysKeepTheirOrderWhenThePartitionIsRewound puts messages that come before one that
// was claimed meanwhile: once they are durable, they come before all that is left,
// those that were on disk early and those that were not.
func TestKeysKeepTheirOrderWhenThePartitionIsRewound(t *testing.T) {
	t.Parallel()
	g, clock := newGate(), base.NewManual(start)
	s := openOn(t, g, clock, defaultLimits)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	commitTo(t, s, &store.Tx{Put: []store.Message{message(1, 0, at(10)), message(2, 0, at(11)), message(3, 0, at(12))}})
	clock.Advance(9 * time.Millisecond)
	open := hold(t, g)
	var commits [3]<-chan error
	for i := range commits { // the last one is not applied
		commits[i] = startCommit(t, s, &store.Tx{Put: []store.Message{message(20+i, 0, time.Time{})}})
		s.underWay(t, 1+i)
	}
	clock.Advance(9 * time.Millisecond)
	var seen []string
	see := func() {
		t.Helper()
		seen = append(seen, claimFrom(t, s, upTo(1, time.Hour, 0), 1)[0].Key.Name)
	}
	see()
	open()
	for _, done := range commits {
		if err := soon(t, "a commit ends", done); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	for range 5 {
		see()
	}
	if want := []string{"key-1", "key-20", "key-21", "key-22", "key-2", "key-3"}; !slices.Equal(seen, want) {
		t.Errorf("the keys came as %q, want %q", seen, want)
	}
}

// TestWhatCannotGoToQuarantineFailsOnlyTheClaim takes a message away from the disk that
// has too many attempts: the waiting call gets the error, and the store keeps working.
func TestWhatCannotGoToQuarantineFailsOnlyTheClaim(t *testing.T) {
	t.Parallel()
	h := newHouse(t, tiny)
	m := message(0, 0, time.Time{})
	m.Body = []byte("longer than what is kept in memory")
	h.commit(&store.Tx{Put: []store.Message{m}})
	c := claimFrom(t, h.Store, upTo(1, time.Hour, 0), 1)[0]
	req := upTo(1, time.Hour, time.Hour)
	req.MaxAttempts = 1
	waits := startClaim(t, h.Store, req)
	h.calls(t, 1)
	h.mu.Lock()
	k := h.keys.get(c.Key).value
	at := msgKey(nil, k.partition.id, k.refs[0].pos)
	h.mu.Unlock()
	if err := h.db.Delete(at, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context(), store.Release{Lease: c.Lease()}); err != nil {
		t.Errorf("release: %v", err)
	}
	got := soon(t, "the call that waits is told", waits)
	if got.err == nil || errors.Is(got.err, store.ErrFailed) || len(got.claims) != 0 {
		t.Errorf("claimed %d keys, %v, want an error that is not %v", len(got.claims), got.err, store.ErrFailed)
	}
	other := message(1, 0, time.Time{})
	other.Route = "other"
	h.commit(&store.Tx{Put: []store.Message{other}})
	req = upTo(1, time.Hour, 0)
	req.Routes = []string{"other"}
	h.finish(claimFrom(t, h.Store, req, 1))
}

// TestGroupsAndKeysAreForgotten commits in a way in which each group has a key in
// common with the one before: as long as one of them is known, none must hold another.
func TestGroupsAndKeysAreForgotten(t *testing.T) {
	t.Parallel()
	const commits, most = 500, 10
	lim := defaultLimits
	lim.keys = 4
	h := newHouse(t, lim)
	h.commit(&store.Tx{Put: []store.Message{message(0, 0, time.Time{})}})
	h.claim(1, 0) // it stays in use
	key := func(i int) store.Key { return message(i, 0, time.Time{}).Key }
	length := map[int]int{}
	var groups []weak.Pointer[group]
	var keys []weak.Pointer[keyState]
	for i := range commits {
		tx := &store.Tx{}
		for _, n := range []int{i, i + 1} {
			tx.Append = append(tx.Append, store.Append{Key: key(n), At: length[n], Entries: [][]byte{{1}}})
			length[n]++
		}
		h.mu.Lock()
		groups = append(groups, weak.Make(h.openGroup))
		h.mu.Unlock()
		h.commit(tx)
		h.mu.Lock()
		keys = append(keys, weak.Make(h.keys.get(key(i+1)).value))
		h.mu.Unlock()
	}
	runtime.GC()
	runtime.GC()
	g, k := 0, 0
	for i := range commits {
		if groups[i].Value() != nil {
			g++
		}
		if keys[i].Value() != nil {
			k++
		}
	}
	if g > most || k > most {
		t.Errorf("%d groups and %d keys are in memory after %d commits, want %d at most", g, k, commits, most)
	}
}

// TestAMessageThatIsNotDurableKeepsTheBacklogOnDisk consumes messages of a key with
// many while another one is under way: the key must still have few of them in memory.
func TestAMessageThatIsNotDurableKeepsTheBacklogOnDisk(t *testing.T) {
	t.Parallel()
	const count = 500
	lim := limits{window: 8, load: 4, refs: 4, body: 2, keys: 16, records: 16, journal: 1024}
	g := newGate()
	s := openOn(t, g, base.NewManual(start), lim)
	for i := range count {
		commitTo(t, s, &store.Tx{Put: []store.Message{message(0, i, time.Time{})}})
	}
	req, seen := upTo(1, time.Hour, 0), newOrder(t)
	claims := claimFrom(t, s, req, 1)
	seen.see(claims)
	open := hold(t, g)
	put := startCommit(t, s, &store.Tx{Put: []store.Message{message(0, count, time.Time{})}})
	s.underWay(t, 1)
	finish := startCommit(t, s, &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}})
	s.underWay(t, 2)
	second := startClaim(t, s, req)
	s.leased(t, 1)
	open()
	for _, done := range []<-chan error{put, finish} {
		if err := soon(t, "a commit ends", done); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	claims = []store.Claim{served(t, "the key is claimed again", second)}
	for {
		seen.see(claims)
		s.mu.Lock()
		attached := s.keys.get(claims[0].Key).value.attached
		s.mu.Unlock()
		if attached > lim.window+lim.load {
			t.Fatalf("%d messages of a key are in memory that may have %d", attached, lim.refs)
		}
		commitTo(t, s, &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}})
		if seen.all == count+1 {
			return
		}
		claims = claimFrom(t, s, req, 1)
	}
}

// TestAClaimDoesNotLoadAllPartitions claims one key where many tenants have some: it must
// not cost more memory the more tenants there are.
func TestAClaimDoesNotLoadAllPartitions(t *testing.T) {
	t.Parallel()
	const tenants, each, most = 100, 100, 1_000
	h := newHouse(t, defaultLimits)
	for i := range tenants {
		var messages []store.Message
		for j := range each {
			m := message(j, j, time.Time{})
			m.Key.Tenant = fmt.Sprint(i)
			messages = append(messages, m)
		}
		h.commit(&store.Tx{Put: messages})
	}
	h.reopen()
	if n := len(h.claim(1, 0)); n != 1 {
		t.Fatalf("claimed %d keys, want 1", n)
	}
	if keys, messages := h.inMemory(); keys > most || messages > most {
		t.Errorf("%d keys and %d messages of %d are in memory after one was claimed, want %d at most", keys, messages, tenants*each, most)
	}
}

// TestTheJournalIsNotWrittenAnewAtEachClaim claims more keys than the journal has room
// for: it must grow then, because writing all of it costs more with each claim.
func TestTheJournalIsNotWrittenAnewAtEachClaim(t *testing.T) {
	t.Parallel()
	const keys, most = 500, 20
	var files atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, journalTemp) {
			files.Add(1)
		}
		return nil
	}))
	lim := defaultLimits
	lim.journal = keys / 5 * journalEntry
	s := openOn(t, fs, base.NewManual(start), lim)
	tx := &store.Tx{}
	for i := range keys {
		tx.Put = append(tx.Put, message(i, 0, time.Time{}))
	}
	commitTo(t, s, tx)
	for range keys {
		claimFrom(t, s, upTo(1, time.Hour, 0), 1)
	}
	if n := files.Load(); n == 0 || n > most {
		t.Errorf("%d claims wrote the journal anew %d times, want once to %d times", keys, n, most)
	}
}

// badReads is a file system on which reads of tables fail, while it is told so.
type badReads struct {
	vfs.FS
	toggle      *errorfs.Toggle
	first, last int64 // of the reads that fail
	reads       atomic.Int64
}

func newBadReads(fs vfs.FS, first, last int64) *badReads {
	b := &badReads{first: first, last: last}
	b.FS, b.toggle = failing(fs, func(op errorfs.Op) bool {
		if op.Kind != errorfs.OpFileReadAt || !isTable(op.Path) {
			return false
		}
		n := b.reads.Add(1)
		return n >= b.first && n <= b.last
	})
	return b
}

// hit reports whether a read has failed.
func (b *badReads) hit() bool { return b.reads.Load() >= b.first }

// still keeps Pebble from reading tables on its own account: then all reads are those
// of the calls that are tested.
func still(o *pebble.Options) {
	small(o)
	o.DisableAutomaticCompactions = true
	o.DisableTableStats = true
}

// openStill opens a store in which only calls read tables. The test closes it.
func openStill(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: fs, tune: still})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// shut closes a store.
func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// writeTables makes a store with what is committed, all of it in tables.
func writeTables(t *testing.T, txs []*store.Tx) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	s := openStill(t, mem)
	for _, tx := range txs {
		commitTo(t, s, tx)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	return mem
}

// manyReads is more reads than a test needs.
const manyReads = 1000

// TestReadersReportWhatTheyCannotRead makes one read after another fail: a list or a
// count is whole, or there is an error.
func TestReadersReportWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	const tenants, each = 3, 300
	tenant, statuses := "acme", []string{"a", "b", "c"}
	for _, tt := range []struct {
		name string
		read func(s *Store) (n int, err error)
	}{
		{"list of some statuses", func(s *Store) (int, error) {
			page, err := s.List(t.Context(), store.Query{Kind: kind, Tenant: &tenant, Statuses: statuses, Limit: 2 * tenants * each})
			return len(page.Records), err
		}},
		{"list of all", func(s *Store) (int, error) {
			page, err := s.List(t.Context(), store.Query{Kind: kind, Descending: true, Limit: 2 * tenants * each})
			return len(page.Records), err
		}},
		{"stats", func(s *Store) (int, error) {
			stats, err := s.Stats(t.Context())
			if err != nil || len(stats.Routes) != 1 {
				return 0, err
			}
			return stats.Routes[0].Ready, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var txs []*store.Tx
			for i, status := range statuses {
				tx := &store.Tx{}
				for j := range each {
					m := message(j, j, time.Time{})
					m.Key.Tenant, m.Body = fmt.Sprint(i), make([]byte, 100)
					tx.Put = append(tx.Put, m)
					rec := store.Record{Key: store.RecordKey{Kind: kind, Tenant: tenant, ID: fmt.Sprint(status, j)}, Status: status, Time: start}
					tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: rec})
				}
				txs = append(txs, tx)
			}
			mem := writeTables(t, txs)
			for n := int64(1); n < manyReads; n++ {
				bad := newBadReads(mem, n, n)
				s := openStill(t, bad)
				bad.toggle.On()
				got, err := tt.read(s)
				bad.toggle.Off()
				shut(t, s)
				if err == nil && got != tenants*each {
					t.Errorf("read %d fails: there are %d of %d, and no error", n, got, tenants*each)
				}
				if err != nil && !errors.Is(err, errorfs.ErrInjected) {
					t.Errorf("read %d fails: %v", n, err)
				}
				if !bad.hit() {
					if n == 1 {
						t.Error("nothing was read from tables")
					}
					return
				}
			}
			t.Errorf("there are more than %d reads", manyReads)
		})
	}
}

// TestAReadErrorHidesNoMessages makes reads fail while messages are loaded: when they
// work again, and after a restart, all messages are there that were not consumed.
func TestAReadErrorHidesNoMessages(t *testing.T) {
	t.Parallel()
	const count = 3
	for _, tt := range []struct {
		name             string
		put, finish, now bool // what happens before the restart; now: the rest is claimed too
	}{
		{"nothing else", false, false, false},
		{"a claim", false, false, true},
		{"a put", true, false, false},
		{"a put and a finish", true, true, false},
		{"a put, a finish and a claim", true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); n < manyReads; n++ {
				var txs []*store.Tx
				for i := range count {
					m := message(i, i, time.Time{})
					m.Body = make([]byte, 64<<10) // more than a block
					txs = append(txs, &store.Tx{Put: []store.Message{m}})
				}
				bad := newBadReads(writeTables(t, txs), n, manyReads)
				s := openStill(t, bad)
				bad.toggle.On()
				claims, err := s.Claim(t.Context(), upTo(10, time.Hour, 0))
				bad.toggle.Off()
				if err == nil && len(claims) == count && n > 1 {
					shut(t, s)
					return // nothing was left to fail
				}
				if !errors.Is(err, errorfs.ErrInjected) || errors.Is(err, store.ErrFailed) {
					t.Fatalf("with read %d and all later ones failing, %d keys were claimed: %v", n, len(claims), err)
				}
				left := count
				if tt.put {
					commitTo(t, s, &store.Tx{Put: []store.Message{message(9, 9, time.Time{})}})
					left++
				}
				if tt.now || tt.finish {
					claims = claimFrom(t, s, upTo(10, time.Hour, 0), left)
				}
				if tt.finish {
					last := claims[left-1] // what was put last
					commitTo(t, s, &store.Tx{Finish: []store.Finish{{Lease: last.Lease()}}})
					left--
				}
				shut(t, s)
				s = openStill(t, bad)
				claimFrom(t, s, upTo(10, time.Hour, 0), left)
				shut(t, s)
			}
			t.Errorf("there are more than %d reads", manyReads)
		})
	}
}
