package waitlist

import (
	"cmp"
	"slices"
)

// Turns has the tenants of claims that are limited to some take turns: the one that was
// served longest ago comes first. Claims of all tenants keep their own order, along all tenants;
// those of some would move it to their tenants again and again, and others would starve.
//
// It is guarded by the store's mutex. The zero value is ready to use.
type Turns struct {
	number uint64
	served map[string]uint64 // the number of the latest turn
}

// maxTurns is how many tenants are remembered. With one more all begin anew.
const maxTurns = 10_000

// Order returns tenants without duplicates, those that were served longest ago first.
func (t *Turns) Order(tenants []string) []string {
	order := slices.Compact(slices.Sorted(slices.Values(tenants)))
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(t.served[a], t.served[b]) })
	return order
}

// Served notes that a key of a tenant was claimed.
func (t *Turns) Served(tenant string) {
	if t.served == nil || len(t.served) >= maxTurns {
		t.served = map[string]uint64{}
	}
	t.number++
	t.served[tenant] = t.number
}
