package redisstore

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// pair starts a master and a replica that has all that the master has.
func pair(t *testing.T) (master, replica *testenv.RedisServer) {
	t.Helper()
	master, replica = testenv.Redis(t), testenv.Redis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	must(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	must(t, replica, "REPLICAOF", host, port)
	eventually(t, "the replica follows", func() bool {
		info := must(t, replica, "INFO", "replication")
		text, err := info.ToString()
		return err == nil && strings.Contains(text, "master_link_status:up")
	})
	return master, replica
}

func TestAPromotedReplicaGoesOnWithAllThatReplicasWereWaitedFor(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	o := Options{Addresses: []string{master.Addr, replica.Addr}, Replicas: 1, poll: 100 * time.Millisecond}
	s := open(t, o)
	l := newLedger(s, 4)
	eventually(t, "there are commits", func() bool { return l.commits() > 100 })
	master.Kill()
	must(t, replica, "REPLICAOF", "NO", "ONE")
	s.replicas.Store(0) // there is none left
	before := l.commits()
	eventually(t, "there are commits again", func() bool { return l.commits() > before+50 })
	l.end(t, s)
}

func TestAMasterThatBecomesAReplicaIsLeft(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	s := open(t, Options{Addresses: []string{master.Addr, replica.Addr}, Replicas: 1})
	put(t, s, message("turns", "order-1", "a"))
	host, port, err := net.SplitHostPort(replica.Addr)
	if err != nil {
		t.Fatal(err)
	}
	must(t, replica, "REPLICAOF", "NO", "ONE")
	must(t, master, "REPLICAOF", host, port)
	eventually(t, "commits succeed again", func() bool {
		err := s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}})
		if err != nil && matchesSentinel(err) {
			t.Fatalf("commit: %v", err)
		}
		return err == nil
	})
	if claims := claim(t, s, request("turns", 0)); len(claims) != 2 {
		t.Errorf("claimed %d keys, want 2", len(claims))
	}
	if got := s.client.Load().address; got != replica.Addr {
		t.Errorf("the store is at %s, want %s", got, replica.Addr)
	}
	verifies(t, s)
}

// A call that was under way on the old connection fails when that is closed, after the store
// has found the new master. It must not replace the new connection, under the calls on it.
func TestALateErrorOfAnOldConnectionDoesNotReplaceTheNewOne(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	s := open(t, Options{Addresses: []string{master.Addr, replica.Addr}})
	put(t, s, message("turns", "order-1", "a"))
	old := s.client.Load()
	host, port, err := net.SplitHostPort(replica.Addr)
	if err != nil {
		t.Fatal(err)
	}
	must(t, replica, "REPLICAOF", "NO", "ONE")
	must(t, master, "REPLICAOF", host, port)
	eventually(t, "commits succeed again", func() bool {
		return s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}}) == nil
	})
	eventually(t, "the old connection is closed", func() bool { return !s.reconnecting.Load() })
	current := s.client.Load()
	if err := s.callError(old, "claim", rueidis.ErrClosing); err == nil {
		t.Error("a failed call has no error")
	}
	if s.reconnecting.Load() || s.client.Load() != current {
		t.Error("an error of the connection that was replaced replaces its successor")
	}
	if err := s.callError(current, "claim", rueidis.ErrClosing); err == nil {
		t.Error("a failed call has no error")
	}
	eventually(t, "a lost connection is replaced", func() bool { return s.client.Load() != current })
}

func TestOfTwoMastersTheOneThatWasWrittenToLastIsChosen(t *testing.T) {
	t.Parallel()
	old, promoted := pair(t)
	o := Options{Addresses: []string{old.Addr, promoted.Addr}, Prefix: newPrefix()}
	s := open(t, o)
	put(t, s, message("turns", "order-1", "a"))
	old.Stop()
	must(t, promoted, "REPLICAOF", "NO", "ONE")
	eventually(t, "commits succeed again", func() bool {
		return s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}}) == nil
	})
	old.Start() // nobody told it that it is not the master any more
	other := open(t, o)
	if got := other.client.Load().address; got != promoted.Addr {
		t.Errorf("the store is at %s, want %s", got, promoted.Addr)
	}
}

func TestAReplicaAloneIsRefused(t *testing.T) {
	t.Parallel()
	_, replica := pair(t)
	_, err := Open(t.Context(), Options{Addresses: []string{replica.Addr}})
	if !isErr(err, errReplica) {
		t.Errorf("got %v, want that it is a replica", err)
	}
}

func TestACommitThatTooFewReplicasHaveIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, Replicas: 1, waitReplicas: 50 * time.Millisecond})
	err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{putRecord("r")}})
	if err == nil || matchesSentinel(err) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), putRecord("r").Record.Key); err != nil {
		t.Errorf("it is done all the same: %v", err)
	}
}
