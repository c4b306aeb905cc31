package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
)

// TestSentinelsPromoteAReplicaUnderLoad: a master is killed, three sentinels agree on a successor,
// and the store goes on there. With replicas=1 nothing is lost here, where the one replica that
// there is has confirmed every commit.
func TestSentinelsPromoteAReplicaUnderLoad(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	testenv.Sentinels(t, master)
	s := open(t, Options{Addresses: []string{master.Addr, replica.Addr}, Replicas: 1, waitReplicas: time.Second, poll: 100 * time.Millisecond})
	l := newLedger(s, 4)
	l.goesOn(t, 20)
	master.Kill()
	c := newClient(t, replica)
	defer c.Close()
	eventually(t, "the replica is promoted", func() bool { // the promotion ends its connections
		text, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(text, "role:master")
	})
	master.Start() // the sentinels make it a replica
	l.goesOn(t, 20)
	if got := s.client.Load().address; got != replica.Addr {
		t.Errorf("the store is at %s, want %s", got, replica.Addr)
	}
	l.end(t, s)
}
