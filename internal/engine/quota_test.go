package engine

import (
	"fmt"
	"testing"
	"time"
)

// TestQuotasForgetTenants whose counts are old, and none that is in use or has started what
// nobody serves: memory does not grow with the tenants that there ever were.
func TestQuotasForgetTenants(t *testing.T) {
	inBubble(t, func(r *rig) {
		q := newQuotas(r.client(), Quota{Open: 10, Unserved: 10}, nil)
		_, release := q.tenant("in use")
		unserved, done := q.tenant("unserved")
		unserved.names["nobody"] = true
		done()
		for i := range 10 * sweepTenants {
			r.must(q.reserveTenant(r.Context(), fmt.Sprint("tenant-", i), nil))
			if i%100 == 0 {
				r.pass(10 * time.Second)
			}
		}
		if n := len(q.tenants); n > 2*sweepTenants {
			r.Errorf("%d tenants are remembered", n)
		}
		for _, name := range []string{"in use", "unserved"} {
			if q.tenants[name] == nil {
				r.Errorf("tenant %q is forgotten", name)
			}
		}
		release()
	})
}
