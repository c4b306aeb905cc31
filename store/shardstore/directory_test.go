package shardstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// TestSlotsNeverChange holds slots that tenants have been found by: another hash would lose them.
func TestSlotsNeverChange(t *testing.T) {
	t.Parallel()
	for tenant, want := range map[string]int{"": 944, "acme": 555, "beta": 78, "globex": 961, "\x00\xff": shardstore.SlotOf("\x00\xff")} {
		if got := shardstore.SlotOf(tenant); got != want {
			t.Errorf("tenant %q has slot %d, want %d", tenant, got, want)
		}
	}
	slots := map[int]int{}
	for i := range 100 * shardstore.Slots {
		slots[shardstore.SlotOf(fmt.Sprint("tenant-", i))]++
	}
	for slot := range shardstore.Slots {
		if n := slots[slot]; n < 50 || n > 160 {
			t.Errorf("slot %d has %d tenants, want about 100", slot, n)
		}
	}
}

// TestDirectoryOfANewStore is spread over empty shards, and leaves everything on the one that is in
// use already.
func TestDirectoryOfANewStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		used []int
		want map[string]int // slots by shard
		err  error
	}{
		{"all are empty", nil, map[string]int{"a": 342, "b": 341, "c": 341}, nil},
		{"one is in use", []int{1}, map[string]int{"b": shardstore.Slots}, nil},
		{"two are in use", []int{0, 2}, nil, store.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list, shards := servers(3)
			for _, i := range c.used {
				ok(t, list[i].Commit(t.Context(), put("acme", "k")))
			}
			s, err := shardstore.New(t.Context(), shards, shardstore.Options{})
			if c.err != nil {
				is(t, err, c.err)
				return
			}
			ok(t, err)
			got := map[string]int{}
			for _, name := range s.Directory().Slots {
				got[name]++
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("slots by shard are %v, want %v", got, c.want)
			}
			ok(t, s.Close())
		})
	}
}

// TestDirectoryIsTheFormatOfTheDocument: docs/format.md describes this body.
func TestDirectoryIsTheFormatOfTheDocument(t *testing.T) {
	t.Parallel()
	list, shards := servers(2)
	s := openSystem(t, shards)
	r, err := list[0].Get(t.Context(), store.ShardDirectory)
	ok(t, err)
	want := `{"format":1,"id":"` + s.Directory().ID + `","version":1,"home":"a","shards":["a","b"],"slots":[{"from":0,"shard":"a"},{"from":512,"shard":"b"}]}`
	if string(r.Body) != want {
		t.Errorf("the directory is\n%s, want\n%s", r.Body, want)
	}
}

// TestDirectoryIsBroughtToEveryShard also if a shard has lost it, or has an earlier one.
func TestDirectoryIsBroughtToEveryShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(3)
		s := openSystem(t, shards)
		synctest.Wait()
		for i, server := range list {
			r, err := server.Get(t.Context(), store.ShardDirectory)
			if err != nil || !strings.Contains(string(r.Body), `"version":1`) {
				t.Errorf("shard %d: %s, %v", i, r.Body, err)
			}
		}
		// A later version on any shard counts, and is brought to the others.
		r, err := list[2].Get(t.Context(), store.ShardDirectory)
		ok(t, err)
		body := strings.Replace(string(r.Body), `"version":1`, `"version":2`, 1)
		body = strings.Replace(body, `}]}`, `}],"tenants":[{"tenant":"YWNtZQ==","shard":"c"}]}`, 1)
		ok(t, list[2].Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.ShardDirectory, Body: []byte(body)}, Expect: r.Version}}}))
		synctest.Wait()
		if d := s.Directory(); d.Version != 2 || d.Of("acme") != "c" {
			t.Fatalf("the process goes by version %d, acme is on %s", d.Version, d.Of("acme"))
		}
		<-soon(3 * time.Second) // of virtual time: it was not put by a process that brings it to the others
		for i, server := range list {
			r, err := server.Get(t.Context(), store.ShardDirectory)
			if err != nil || string(r.Body) != body {
				t.Errorf("shard %d: %s, %v", i, r.Body, err)
			}
		}
		ok(t, s.Commit(t.Context(), put("acme", "k")))
		if m, err := list[2].Pending(t.Context(), store.Key{Queue: "q", Tenant: "acme", Name: "k"}, 0); err != nil || len(m) != 1 {
			t.Errorf("shard c has %v, %v of acme", m, err)
		}
	})
}

// TestDirectoryOfManyShards: a process that does not wait for changes on all shards goes by a later directory
// that one of them has within a minute, and brings it to all others in another one.
func TestDirectoryOfManyShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(8)
		s := openSystem(t, shards)
		for i, server := range list {
			r, err := server.Get(t.Context(), store.ShardDirectory)
			ok(t, err)
			version := s.Directory().Version + 1
			body := strings.Replace(string(r.Body), fmt.Sprintf(`"version":%d`, version-1), fmt.Sprintf(`"version":%d`, version), 1)
			ok(t, server.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.ShardDirectory, Body: []byte(body)}, Expect: r.Version}}}))
			<-soon(time.Minute + time.Second)
			if got := s.Directory().Version; got != version {
				t.Fatalf("a minute after shard %d has version %d, the process goes by version %d", i, version, got)
			}
			<-soon(time.Minute + time.Second)
			for j, other := range list {
				if r, err := other.Get(t.Context(), store.ShardDirectory); err != nil || string(r.Body) != body {
					t.Errorf("two minutes after shard %d has version %d, shard %d has %s, %v", i, version, j, r.Body, err)
				}
			}
		}
	})
}

// TestMistakesAreRefused when a store is opened.
func TestMistakesAreRefused(t *testing.T) {
	t.Parallel()
	list, shards := servers(2)
	openSystem(t, shards)
	other := func() store.Store { return memstore.New(memstore.Options{}) }
	for _, c := range []struct {
		name   string
		shards []shardstore.Shard
		want   string
	}{
		{"none", nil, "no shards"},
		{"a name that is not one", []shardstore.Shard{{Name: "A b", Store: other()}}, `"A b"`},
		{"a name twice", []shardstore.Shard{{Name: "a", Store: other()}, {Name: "a", Store: other()}}, "shard a is given twice"},
		{"a shard of the directory is missing", []shardstore.Shard{{Name: "a", Store: kept{list[0]}}}, "not configured: b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := shardstore.New(t.Context(), c.shards, shardstore.Options{})
			is(t, err, store.ErrInvalid)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestShardsOfTwoStoresAreNotMixed: whichever directory is the later one, tenants would be looked for where
// they are not.
func TestShardsOfTwoStoresAreNotMixed(t *testing.T) {
	t.Parallel()
	one, shards := servers(2)
	openSystem(t, shards)
	two, shards := servers(2)
	openSystem(t, shards)
	_, err := shardstore.New(t.Context(), []shardstore.Shard{{Name: "a", Store: kept{one[0]}}, {Name: "b", Store: kept{two[0]}}}, shardstore.Options{})
	is(t, err, store.ErrInvalid)
	if !strings.Contains(err.Error(), "another store") {
		t.Errorf("the error is %v", err)
	}
}

// TestAShardThatWasNotAddedIsLeftAlone: it may be another's.
func TestAShardThatWasNotAddedIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(2)
		openSystem(t, shards)
		synctest.Wait()
		other := newServer()
		ok(t, other.Commit(t.Context(), put("acme", "k")))
		s := openSystem(t, []shardstore.Shard{{Name: "a", Store: kept{list[0]}}, {Name: "b", Store: kept{list[1]}}, {Name: "c", Store: other}})
		synctest.Wait()
		_, err := other.Get(t.Context(), store.ShardDirectory)
		is(t, err, store.ErrNotFound)
		is(t, s.AddShard(t.Context(), "c"), store.ErrInvalid)
	})
}

// kept is a server that others use too: it is not closed.
type kept struct{ *server }

func (kept) Close() error { return nil }

// TestAShardByItselfIsRefused where programs check what they work on.
func TestAShardByItselfIsRefused(t *testing.T) {
	t.Parallel()
	list, shards := servers(2)
	s := openSystem(t, shards)
	ok(t, store.Whole(t.Context(), s))
	is(t, store.Whole(t.Context(), list[0]), store.ErrShard)
}

// TestTheRecordsOfTheShardsAreHidden from the users of the store.
func TestTheRecordsOfTheShardsAreHidden(t *testing.T) {
	t.Parallel()
	_, shards := servers(2)
	s := openSystem(t, shards)
	_, err := s.Get(t.Context(), store.ShardDirectory)
	is(t, err, store.ErrNotFound)
	page, err := s.List(t.Context(), store.Query{Kind: store.KindShards})
	ok(t, err)
	n, err := s.Count(t.Context(), store.Query{Kind: store.KindShards}, 10)
	ok(t, err)
	if len(page.Records)+n > 0 {
		t.Errorf("listed %v, counted %d", page.Records, n)
	}
	is(t, s.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: store.ShardDirectory, Expect: store.AnyVersion}}}), store.ErrInvalid)
}

// TestListOfShardsInAFile is read as it is written, and what is wrong in it is said without the
// passwords.
func TestListOfShardsInAFile(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "shards")
		ok(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	s, err := store.Open(t.Context(), "shards://"+file("# two\n\neast  memory://\n  west memory://\n"))
	ok(t, err)
	if names := s.(*shardstore.Store).Directory().Shards; fmt.Sprint(names) != "[east west]" {
		t.Errorf("the shards are %v", names)
	}
	ok(t, s.Close())
	for text, want := range map[string]string{
		"":                               "no shards",
		"a\n":                            "line 1",
		"a memory://\nB memory://":       "line 2",
		"a shards:///x":                  "made of shards",
		"a nowhere://u:hunter2@h/x?y=z":  "unknown scheme",
		"a memory://u:hunter2@h":         "memory",
		"a memory://\na memory://\n":     "given twice",
		"a memory://\nb memory://?bad=1": "bad",
	} {
		_, err := store.Open(t.Context(), "shards://"+file(text))
		is(t, err, store.ErrInvalid)
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error is %v, want one with %q and no password", text, err, want)
		}
	}
	_, err = store.Open(t.Context(), "shards:///does/not/exist")
	is(t, err, store.ErrInvalid)
}

// TestClaimsTakeTurns: of two callers who alternate, each for its own route, neither gets keys of one
// shard only while another has some.
func TestClaimsTakeTurns(t *testing.T) {
	t.Parallel()
	_, shards := servers(2)
	s := openSystem(t, shards)
	for _, route := range []string{"x", "y"} {
		for _, shard := range []string{"a", "b"} {
			for i := range 10 {
				tx := put(tenantOn(s, shard, 0), fmt.Sprint(route, i))
				tx.Put[0].Route = route
				ok(t, s.Commit(t.Context(), tx))
			}
		}
	}
	got := map[string]int{}
	for range 4 {
		for _, route := range []string{"x", "y"} {
			req := request(1, 0)
			req.Routes = []string{route}
			claims, err := s.Claim(t.Context(), req)
			ok(t, err)
			got[route+s.Directory().Of(claims[0].Key.Tenant)]++
		}
	}
	for _, who := range []string{"xa", "xb", "ya", "yb"} {
		if got[who] != 2 {
			t.Errorf("claims by route and shard are %v, want 2 of each", got)
		}
	}
}

// TestAWaitThatTwoShardsEndGetsNoMoreThanItAsked: what it got too much is ready again, and was not
// counted.
func TestAWaitThatTwoShardsEndGetsNoMoreThanItAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, shards := servers(3)
		s := openSystem(t, shards)
		at := base.System{}.Now().Add(time.Minute)
		for _, shard := range []string{"a", "b", "c"} {
			tx := put(tenantOn(s, shard, 0), "k")
			tx.Put[0].VisibleAt = at
			ok(t, s.Commit(t.Context(), tx))
		}
		seen := map[string]bool{}
		for range 3 {
			claims, err := s.Claim(t.Context(), request(1, time.Hour))
			ok(t, err)
			if len(claims) != 1 || claims[0].Messages[0].Attempt != 1 {
				t.Fatalf("claimed %v, want one key with its first attempt", claims)
			}
			seen[claims[0].Key.Tenant] = true
		}
		if len(seen) != 3 {
			t.Errorf("claimed of %v, want all three tenants", seen)
		}
	})
}
