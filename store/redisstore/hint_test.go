package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// never is the interval of the poll in tests that are about hints.
const never = 24 * time.Hour

// two opens a store twice, as two processes do.
func two(t *testing.T, server *testenv.RedisServer, poll time.Duration) (a, b *Store) {
	t.Helper()
	o := Options{Addresses: []string{server.Addr}, Prefix: newPrefix(), poll: poll}
	return open(t, o), open(t, o)
}

func TestAClaimIsWokenByAnotherProcess(t *testing.T) {
	t.Parallel()
	a, b := two(t, testenv.SharedRedis(t), never)
	get := func(what string, result func() []store.Claim) []store.Claim {
		t.Helper()
		claims := result()
		if len(claims) != 1 {
			t.Fatalf("%s: claimed %d keys, want one", what, len(claims))
		}
		return claims
	}
	wait := func() func() []store.Claim {
		result := waitsFor(t, a, request("turns", time.Hour))
		eventually(t, "hints are heard", a.listening.Load)
		return result
	}
	result := wait()
	put(t, b, message("turns", "order-1", "a"))
	claims := get("a message", result)

	result = wait()
	if err := b.Release(t.Context(), store.Release{Lease: claims[0].Lease()}); err != nil {
		t.Fatal(err)
	}
	claims = get("a release", result)

	result = wait()
	put(t, b, message("turns", "order-1", "b"))
	if err := b.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}}); err != nil {
		t.Fatal(err)
	}
	claims = get("a finish that leaves a message", result)

	result = wait()
	later := message("turns", "order-2", "c")
	later.VisibleAt = claims[0].Now.Add(500 * time.Millisecond)
	put(t, b, later)
	if got := get("a message that is due later", result)[0]; got.Now.Before(later.VisibleAt) {
		t.Errorf("claimed at %v, before %v", got.Now, later.VisibleAt)
	}
}

func TestARecordOfAnotherProcessEndsAnAwait(t *testing.T) {
	t.Parallel()
	a, b := two(t, testenv.SharedRedis(t), never)
	many := &store.Tx{}
	for i := range maxHinted + 1 {
		many.PutRecords = append(many.PutRecords, putRecord(fmt.Sprint("many-", i)))
	}
	for name, tx := range map[string]*store.Tx{"one": {PutRecords: []store.PutRecord{putRecord("one")}}, "many-7": many} {
		done := make(chan error, 1)
		go func() {
			_, err := a.Await(context.Background(), putRecord(name).Record.Key, 0)
			done <- err
		}()
		eventually(t, "it waits and hints are heard", func() bool { return len(a.awaited()) == 1 && a.listening.Load() })
		if err := b.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(limit):
			t.Fatalf("%s: no call was woken", name)
		}
	}
}

func putRecord(id string) store.PutRecord {
	return store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "instance", Tenant: "acme", ID: id}}, Expect: store.AnyVersion}
}

func TestNobodyWaitsLongWhenHintsAreLost(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	must(t, server, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all") // it may hear nothing
	prefix := newPrefix()
	b := open(t, Options{Addresses: []string{server.Addr}, Prefix: prefix})
	a := open(t, Options{Addresses: []string{server.Addr}, Prefix: prefix, Username: "deaf", Password: "secret", poll: 100 * time.Millisecond})
	result := waitsFor(t, a, request("turns", time.Hour))
	awaited := make(chan error, 1)
	go func() {
		_, err := a.Await(context.Background(), putRecord("r").Record.Key, 0)
		awaited <- err
	}()
	eventually(t, "a call awaits the record", func() bool { return len(a.awaited()) == 1 })
	err := b.Commit(t.Context(), &store.Tx{
		Put: []store.Message{message("turns", "order-1", "a")}, PutRecords: []store.PutRecord{putRecord("r")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if claims := result(); len(claims) != 1 {
		t.Errorf("claimed %d keys, want one", len(claims))
	}
	if err := <-awaited; err != nil {
		t.Errorf("await: %v", err)
	}
	if a.listening.Load() {
		t.Error("hints are heard, so the test proves nothing")
	}
}

func TestHintsThatAreCutComeAgain(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	a, b := two(t, server, never)
	for i := range 5 {
		result := waitsFor(t, a, request("turns", time.Hour))
		eventually(t, "hints are heard", a.listening.Load)
		must(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
		// Hints sent while the process does not listen are lost: waiting calls retry when it does again.
		put(t, b, message("turns", fmt.Sprint("order-", i), "a"))
		if claims := result(); len(claims) != 1 {
			t.Fatalf("round %d: claimed %d keys, want one", i, len(claims))
		}
	}
}

func TestACommitHandsOverWhatItMakesReadyInTheSameCall(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	warm := waitsFor(t, s, request("turns", time.Hour))
	eventually(t, "hints are heard", s.listening.Load)
	eventually(t, "no attempt is made", func() bool { return idle(s) })
	put(t, s, message("turns", "warm-up", "a")) // the server knows the scripts
	warm()
	for _, route := range []string{"order", ""} { // a message without a route goes to that of its key
		result := waitsFor(t, s, request("turns", time.Hour))
		eventually(t, "hints are heard", s.listening.Load)
		eventually(t, "no attempt is made", func() bool { return idle(s) })
		before, keys := calls(t, server, "evalsha"), []string{"order-1", "order-2"}
		tx := &store.Tx{}
		for _, name := range keys {
			m := message("turns", name, "of route "+route)
			m.Route = route
			tx.Put = append(tx.Put, m)
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		claims := result()
		if len(claims) != len(keys) {
			t.Fatalf("claimed %d keys, want %d", len(claims), len(keys))
		}
		if n := calls(t, server, "evalsha") - before; n != 1 {
			t.Errorf("a commit and a claim took %d calls, want one", n)
		}
		finish := &store.Tx{}
		for _, c := range claims {
			finish.Finish = append(finish.Finish, store.Finish{Lease: c.Lease()})
			finish.Append = append(finish.Append, store.Append{Key: c.Key, At: c.LogLength, Entries: [][]byte{[]byte("it stays, with its route")}})
		}
		if err := s.Commit(t.Context(), finish); err != nil {
			t.Fatal(err)
		}
	}
	verifies(t, s)
}

// idle reports whether no attempt to claim is under way.
func idle(s *Store) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := true
	s.waits.Subscriptions(func(sub *subscription) bool {
		idle = !sub.Busy()
		return idle
	})
	return idle
}

func TestACommitThatIsRefusedHandsNothingOverAndTheClaimWaitsOn(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	result := waitsFor(t, s, request("turns", time.Hour))
	refused := &store.Tx{Put: []store.Message{message("turns", "order-1", "a")}, PutRecords: []store.PutRecord{putRecord("r")}}
	refused.PutRecords[0].Expect = 7
	if err := s.Commit(t.Context(), refused); !isErr(err, store.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	put(t, s, message("turns", "order-2", "b"))
	if claims := result(); len(claims) != 1 || claims[0].Key.Name != "order-2" {
		t.Errorf("claimed %v", claims)
	}
}

func TestACommitWhoseCallerHasLeftStillHandsOver(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	for i := range 20 {
		result := waitsFor(t, s, request("turns", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		err := s.Commit(ctx, &store.Tx{Put: []store.Message{message("turns", fmt.Sprint(i), "a")}})
		if err != nil { // it may have happened or not
			put(t, s, message("turns", fmt.Sprint(i), "a"))
		}
		if claims := result(); len(claims) != 1 {
			t.Fatalf("claimed %d keys, want one", len(claims))
		}
	}
}

func TestWhatACallGetsAfterItWasCancelledIsGivenBack(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	relay := testenv.Proxy(t, server.Addr)
	o := Options{Addresses: []string{relay.Addr()}, Prefix: newPrefix(), poll: never}
	s := open(t, o)
	o.Addresses = []string{server.Addr}
	other := open(t, o)
	put(t, s, message("turns", "order-1", "a"))
	claim(t, s, request("other", 0)) // the server knows the script
	relay.Stall()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Claim(ctx, request("turns", time.Hour))
		done <- err
	}()
	eventually(t, "the claim is under way", func() bool { return !idle(s) })
	cancel()
	if err := <-done; !isErr(err, context.Canceled) {
		t.Fatalf("got %v, want that it was cancelled", err)
	}
	before := calls(t, server, "evalsha")
	relay.Resume()
	eventually(t, "the claim goes through", func() bool { return calls(t, server, "evalsha") > before })
	// The key is free again long before its lease ends.
	if claims := claim(t, other, request("turns", limit)); len(claims) != 1 || claims[0].Messages[0].Attempt != 1 {
		t.Errorf("claimed %v, want the key with its first attempt", claims)
	}
}

func TestThoseWhoWaitForTheSameLookTogether(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	const poll = 200 * time.Millisecond
	s := open(t, Options{Addresses: []string{server.Addr}, poll: poll})
	var later []store.Message
	for i := range 1000 {
		m := message("turns", fmt.Sprint(i), "a")
		m.VisibleAt = time.Now().Add(time.Hour)
		later = append(later, m)
	}
	put(t, s, later...)
	for range 20 {
		go func() { _, _ = s.Claim(context.Background(), request("turns", time.Hour)) }()
	}
	eventually(t, "all wait and hints are heard", func() bool { return s.waiting() == 20 && s.listening.Load() && idle(s) })
	const looks = 5
	before, at := calls(t, server, "evalsha"), time.Now()
	eventually(t, "they have looked", func() bool { return calls(t, server, "evalsha") >= before+looks })
	if d := time.Since(at); d < (looks-2)*poll {
		t.Errorf("20 claims that wait looked %d times in %v, and should every %v", looks, d, poll)
	}
}

func TestTheEndOfALeaseThatBeganMeanwhileWakesAClaim(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(start)
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, Clock: clock, poll: never})
	for range 2 {
		go func() { _, _ = s.Claim(context.Background(), request("turns", time.Hour)) }()
	}
	eventually(t, "both wait and hints are heard", func() bool { return s.waiting() == 2 && s.listening.Load() && idle(s) })
	put(t, s, message("turns", "order-1", "a"))
	eventually(t, "one has it", func() bool { return s.waiting() == 1 && idle(s) })
	clock.Advance(time.Minute)
	eventually(t, "the other has it", func() bool { return s.waiting() == 0 })
}
