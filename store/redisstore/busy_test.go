package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// occupy keeps a server busy with a script until the returned function is called.
func occupy(t *testing.T, server *testenv.RedisServer) (release func()) {
	t.Helper()
	must(t, server, "CONFIG", "SET", "busy-reply-threshold", "1")
	ended := make(chan error, 1)
	go func() { ended <- do(t, server, "EVAL", "while true do end", "0").Error() }()
	eventually(t, "the server is busy", func() bool { return errorKind(do(t, server, "PING").Error()) == "BUSY" })
	return func() {
		must(t, server, "SCRIPT", "KILL")
		<-ended
	}
}

// TestABusyServerIsWaitedFor commits while another client's script keeps the server busy, with
// and without replicas to wait for.
func TestABusyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	master, _ := pair(t)
	for replicas := range 2 {
		s := open(t, Options{Addresses: []string{master.Addr}, Replicas: replicas})
		put(t, s, message("turns", "order-1", "a")) // so that the server has the scripts
		release := occupy(t, master)
		committed := make(chan error, 1)
		go func() {
			committed <- s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}})
		}()
		for range 50 { // meanwhile the commit is refused
			if kind := errorKind(do(t, master, "PING").Error()); kind != "BUSY" {
				t.Fatalf("the server says %q", kind)
			}
		}
		release()
		if err := <-committed; err != nil {
			t.Errorf("with %d replicas: %v", replicas, err)
		}
	}
}

// TestAStoreIsClosedWhileTheServerIsBusy: the connection that listens is closed, and nothing is
// sent on it, which the server would refuse.
func TestAStoreIsClosedWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for range 3 {
		s, err := Open(t.Context(), Options{Addresses: []string{server.Addr}})
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := s.Claim(context.Background(), request("turns", time.Hour))
			waiting <- err
		}()
		eventually(t, "it listens", s.listening.Load)
		release := occupy(t, server)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		<-waiting
		release()
	}
}
