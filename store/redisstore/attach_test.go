package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// outcome is the result of a Claim call.
type outcome struct {
	claims []store.Claim
	err    error
}

// attachClaim starts a claim that is attached to the next group of commits, after hold.
func attachClaim(t testing.TB, s *Store, req store.ClaimRequest) (result func() ([]store.Claim, error)) {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		claims, err := s.Claim(context.Background(), req)
		done <- outcome{claims, err}
	}()
	eventually(t, "the claim waits for commits", func() bool {
		s.segments[0].commits.Lock()
		defer s.segments[0].commits.Unlock()
		return len(s.segments[0].commits.attempts) == 1
	})
	return func() ([]store.Claim, error) {
		t.Helper()
		select {
		case o := <-done:
			return o.claims, o.err
		case <-time.After(limit):
			t.Fatal("the claim does not return")
		}
		return nil, nil
	}
}

// queueCommit starts a commit that is queued, after hold.
func queueCommit(t testing.TB, s *Store, tx *store.Tx) (result func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Commit(context.Background(), tx) }()
	eventually(t, "the commit waits for others", func() bool { return pendingCommits(s) == 1 })
	return func() error { return <-done }
}

func TestAClaimThatComesWhileCommitsAreUnderWayGoesWithTheNext(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	warm := waitsFor(t, s, request("turns", time.Hour))
	eventually(t, "hints are received and no attempt is made", func() bool { return s.listening.Load() && idle(s) })
	put(t, s, message("turns", "warm-up", "a")) // the server knows the script
	warm()
	put(t, s, message("turns", "order-1", "a"))
	before, partitions := calls(t, server, "evalsha"), calls(t, server, "zrangebyscore")
	hold(s)
	result := attachClaim(t, s, request("turns", time.Hour))
	committed := queueCommit(t, s, &store.Tx{Put: []store.Message{message("turns", "order-2", "b"), message("turns", "order-3", "c")}})
	unhold(s)
	if err := committed(); err != nil {
		t.Fatal(err)
	}
	claims, err := result()
	if err != nil || len(claims) != 3 || claims[0].Key.Name != "order-1" || claims[1].Key.Name != "order-2" {
		t.Errorf("claimed %v, error %v, want what was there and then what was put", claims, err)
	}
	if n := calls(t, server, "evalsha") - before; n != 1 {
		t.Errorf("the commit and the claim took %d calls, want one", n)
	}
	if n := calls(t, server, "zrangebyscore") - partitions; n != 2 {
		t.Errorf("partitions were looked at %d times, want twice, for what was there before", n)
	}
	verifies(t, s)
}

func TestAClaimThatNoCommitTakesAlongLooksByItself(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	put(t, s, message("turns", "order-1", "a"))
	hold(s)
	result := attachClaim(t, s, request("turns", time.Hour))
	unhold(s)
	if claims, err := result(); err != nil || len(claims) != 1 {
		t.Errorf("claimed %v, error %v, want one key", claims, err)
	}
	hold(s)
	result = attachClaim(t, s, request("turns", time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Commit(ctx, &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}}) }()
	eventually(t, "the commit waits for others", func() bool { return pendingCommits(s) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that it was cancelled", err)
	}
	unhold(s) // nothing is left of the group
	put(t, s, message("turns", "order-3", "c"))
	if claims, err := result(); err != nil || len(claims) != 1 || claims[0].Key.Name != "order-3" {
		t.Errorf("claimed %v, error %v, want order-3", claims, err)
	}
}

func TestAClaimThatGoesWithCommitsSeesToWhatIsDueFirst(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(start)
	o := Options{Addresses: []string{testenv.SharedRedis(t).Addr}, Prefix: newPrefix(), Clock: clock, Logger: quiet(), poll: never}
	s := open(t, o)
	other, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	expires := message("turns", "no route", "a")
	expires.Route, expires.TTL = "", time.Minute
	put(t, other, expires, message("turns", "order-1", "b"))
	if claims := claim(t, other, request("turns", 0)); len(claims) != 1 {
		t.Fatalf("claimed %v, want one key", claims)
	}
	if err := other.Close(); err != nil { // no other process knows the due times
		t.Fatal(err)
	}
	clock.Advance(2 * time.Minute)
	for range 2 { // the second time only the lease of the first has ended
		hold(s)
		result := attachClaim(t, s, request("turns", time.Hour))
		committed := queueCommit(t, s, &store.Tx{Put: []store.Message{message("other", "x", "c")}})
		unhold(s)
		if err := committed(); err != nil {
			t.Fatal(err)
		}
		if claims, err := result(); err != nil || len(claims) != 1 || claims[0].Key.Name != "order-1" {
			t.Errorf("claimed %v, error %v, want the key whose lease has ended", claims, err)
		}
		n, err := s.Count(t.Context(), store.Query{Kind: store.KindQuarantine}, 10)
		if err != nil || n != 1 {
			t.Errorf("%d messages are in quarantine, error %v, want the one that has expired", n, err)
		}
		clock.Advance(2 * time.Minute)
	}
	verifies(t, s)
}

func TestAClaimThatGoesWithCommitsThatFailFindsOutWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	must(t, server, "HSET", s.prefix+"meta", "owner", "another process", "owned", itoa(time.Now().Add(time.Hour).UnixMilli()))
	hold(s)
	result := attachClaim(t, s, request("turns", time.Hour))
	committed := queueCommit(t, s, &store.Tx{Put: []store.Message{message("turns", "x", "c")}})
	unhold(s)
	if err := committed(); !isErr(err, store.ErrInUse) {
		t.Errorf("commit: got %v, want that the store is in use", err)
	}
	if claims, err := result(); !isErr(err, store.ErrInUse) {
		t.Errorf("claimed %v, error %v, want that the store is in use", claims, err)
	}
	must(t, server, "HDEL", s.prefix+"meta", "owner", "owned")
}

func TestAClaimThatGoesWithCommitsGetsNothingThatTheyTakeAway(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	put(t, s, message("turns", "moved", "a"), message("turns", "deleted", "b"), message("turns", "later", "c"), message("turns", "stays", "d"))
	moved, later := message("turns", "moved", "e"), message("turns", "later", "c")
	moved.Route = "other"
	hold(s)
	result := attachClaim(t, s, request("turns", time.Hour))
	committed := queueCommit(t, s, &store.Tx{
		Put: []store.Message{moved}, DeleteKeys: []store.Key{message("turns", "deleted", "").Key},
		Retime: []store.Retime{{Ref: later.Ref(), VisibleAt: time.Now().Add(time.Hour)}},
	})
	unhold(s)
	if err := committed(); err != nil {
		t.Fatal(err)
	}
	if claims, err := result(); err != nil || len(claims) != 1 || claims[0].Key.Name != "stays" {
		t.Errorf("claimed %v, error %v, want only what stays", claims, err)
	}
	verifies(t, s)
	other := request("turns", 0)
	other.Routes = []string{"other"}
	if claims := claim(t, s, other); len(claims) != 1 || len(claims[0].Messages) != 2 {
		t.Errorf("claimed %v, want both messages of the key that has moved", claims)
	}
	verifies(t, s)
}

func TestWhatDoesNotFitAClaimThatGoesWithCommitsIsLeftForOthers(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	small := request("turns", time.Hour)
	small.Max = 2
	hold(s)
	result := attachClaim(t, s, small)
	committed := queueCommit(t, s, &store.Tx{Put: []store.Message{message("turns", "1", "a"), message("turns", "2", "b"), message("turns", "3", "c")}})
	unhold(s)
	if err := committed(); err != nil {
		t.Fatal(err)
	}
	if claims, err := result(); err != nil || len(claims) != 2 {
		t.Errorf("claimed %v, error %v, want two keys", claims, err)
	}
	if claims := claim(t, s, request("turns", 0)); len(claims) != 1 || claims[0].Key.Name != "3" {
		t.Errorf("claimed %v, want the third", claims)
	}
	verifies(t, s)
}
