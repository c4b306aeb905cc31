package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// TestAClaimMovesABoundedNumberOfTenants counts what a claim does when thousands of
// tenants become due at the same time, and claims all of them.
func TestAClaimMovesABoundedNumberOfTenants(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	clock := base.NewManual(start)
	s := open(t, Options{Addresses: []string{server.Addr}, Clock: clock, poll: never})
	const tenants = 5000
	var messages []store.Message
	for i := range tenants {
		m := message("turns", "order-1", "a")
		m.Key.Tenant, m.VisibleAt = fmt.Sprintf("tenant-%d", i), start.Add(time.Hour)
		messages = append(messages, m)
	}
	put(t, s, messages...)
	clock.Advance(time.Hour)
	seen := map[string]bool{}
	req := request("turns", 0)
	for len(seen) < tenants {
		before := calls(t, server, "zadd")
		claims := claim(t, s, req)
		if len(claims) == 0 {
			t.Fatalf("nothing is claimed after %d of %d tenants", len(seen), tenants)
		}
		for _, c := range claims {
			if seen[c.Key.Tenant] {
				t.Errorf("%s is claimed twice", c.Key.Tenant)
			}
			seen[c.Key.Tenant] = true
		}
		if n := calls(t, server, "zadd") - before; n > 1500 {
			t.Fatalf("a claim of %d keys made %d entries, with %d tenants due", len(claims), n, tenants)
		}
		req.Max = 500
	}
	if claims := claim(t, s, req); len(claims) != 0 {
		t.Errorf("%d keys are claimed twice", len(claims))
	}
	verifies(t, s)
}
