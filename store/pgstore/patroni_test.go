//go:build unix

package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
)

// TestPatroni: the primary of two servers that Patroni manages crashes three times under load, alone or with
// its machine, and Patroni promotes the synchronous standby. Nothing that was acknowledged is lost, and work goes on.
func TestPatroni(t *testing.T) {
	t.Parallel()
	c := testenv.Patroni(t)
	for round, machine := range []bool{true, false, true} {
		t.Run(fmt.Sprintf("%d machine %v", round+1, machine), func(t *testing.T) {
			u := withOptions(t, testenv.HostsURL("postgres", c.Addrs()...), "schema", fmt.Sprint("round_", round))
			s := open(t, u, Options{Logger: quiet})
			countUntil(t, s, 8, func(goesOn func(n int64)) {
				goesOn(50)
				begun := time.Now()
				promoted := c.Failover(machine)
				goesOn(20) // more than were under way
				t.Logf("promoted after %v, and the twentieth commit was made after %v", promoted.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
			})
			c.Repair()
		})
	}
}
