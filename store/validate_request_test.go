package store_test

import (
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// requestEdges are the edges of all that is not a commit.
func requestEdges() []edge {
	claim := func(change func(*store.ClaimRequest)) error {
		req := store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Minute}
		change(&req)
		return req.Validate()
	}
	return []edge{
		{
			name: "the queue of a claim", validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.Queue = long(n) }) },
			allowed: []int{1, store.MaxQueue}, tooLarge: []int{store.MaxQueue + 1}, invalid: []int{0},
		},
		{
			name: "the number of routes of a claim",
			validate: func(n int) error {
				return claim(func(r *store.ClaimRequest) { r.Routes = strings.Split(long(n), "")[:n] })
			},
			allowed: []int{1, store.MaxRoutes}, tooLarge: []int{store.MaxRoutes + 1}, invalid: []int{0},
		},
		{
			name:     "the length of a route of a claim",
			validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.Routes = []string{"r", long(n)} }) },
			allowed:  []int{1, store.MaxName}, tooLarge: []int{store.MaxName + 1}, invalid: []int{0},
		},
		{
			name: "the number of tenants of a claim",
			validate: func(n int) error {
				return claim(func(r *store.ClaimRequest) { r.Tenants = append([]string{}, strings.Split(long(n), "")[:n]...) })
			},
			allowed: []int{1, store.MaxClaimTenants}, tooLarge: []int{store.MaxClaimTenants + 1}, invalid: []int{0},
		},
		{
			name:     "the length of a tenant of a claim",
			validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.Tenants = []string{"t", long(n)} }) },
			allowed:  []int{0, 1, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "Max", validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.Max = n }) },
			allowed: []int{1, store.MaxClaim}, invalid: []int{-1, 0, store.MaxClaim + 1},
		},
		{
			name: "MaxMessages", validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.MaxMessages = n }) },
			allowed: []int{0, 1, store.MaxMessages}, invalid: []int{-1, store.MaxMessages + 1},
		},
		{
			name: "MaxAttempts", validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.MaxAttempts = n }) },
			allowed: []int{0, 1 << 40}, invalid: []int{-1},
		},
		{
			name: "Wait", validate: func(n int) error { return claim(func(r *store.ClaimRequest) { r.Wait = time.Duration(n) }) },
			allowed: []int{0, 1 << 60}, invalid: []int{-1},
		},
		{
			name: "the length of a lease",
			validate: func(n int) error {
				return unanimous([]error{
					claim(func(r *store.ClaimRequest) { r.Lease = time.Duration(n) }),
					store.ValidateRenew(time.Duration(n), nil),
				})
			},
			allowed: []int{int(store.MinLease), int(store.MaxLease)},
			invalid: []int{-1, 0, int(store.MinLease) - 1, int(store.MaxLease) + 1},
		},
		{
			name: "After",
			validate: func(n int) error {
				r := store.Release{Lease: store.Lease{Key: goodKey}, After: time.Duration(n)}
				return r.Validate()
			},
			allowed: []int{0, int(store.MaxDelay)}, invalid: []int{-1, int(store.MaxDelay) + 1},
		},
		{
			name: "the limit of Pending", validate: func(n int) error { return store.ValidatePending(goodKey, n) },
			allowed: []int{0, store.MaxPage}, invalid: []int{-1, store.MaxPage + 1},
		},
		{
			name: "the index to read from", validate: func(n int) error { return store.ValidateReadLog(goodKey, n) },
			allowed: []int{0, 1 << 40}, invalid: []int{-1},
		},
		{
			name: "the kind to list", validate: func(n int) error { return (&store.Query{Kind: long(n)}).Validate() },
			allowed: []int{1, store.MaxQueue}, tooLarge: []int{store.MaxQueue + 1}, invalid: []int{0},
		},
		{
			name: "the kind to count", validate: func(n int) error { return store.ValidateCount(&store.Query{Kind: long(n)}, 1) },
			allowed: []int{1, store.MaxQueue}, tooLarge: []int{store.MaxQueue + 1}, invalid: []int{0},
		},
		{
			name: "the limit of a count", validate: func(n int) error { return store.ValidateCount(&store.Query{Kind: "k"}, n) },
			allowed: []int{1, store.MaxCount}, invalid: []int{-1, 0, store.MaxCount + 1},
		},
		{
			name: "Limit of a query to count by", validate: func(n int) error { return store.ValidateCount(&store.Query{Kind: "k", Limit: n}, 1) },
			allowed: []int{0}, invalid: []int{-1, 1},
		},
		{
			name: "the prefix to list", validate: func(n int) error { return (&store.Query{Kind: "k", Prefix: long(n)}).Validate() },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the prefix to count", validate: func(n int) error { return store.ValidateCount(&store.Query{Kind: "k", Prefix: long(n)}, 1) },
			allowed: []int{0, store.MaxName}, tooLarge: []int{store.MaxName + 1},
		},
		{
			name: "the limit of a list", validate: func(n int) error { return (&store.Query{Kind: "k", Limit: n}).Validate() },
			allowed: []int{0, store.MaxPage}, invalid: []int{-1, store.MaxPage + 1},
		},
	}
}
