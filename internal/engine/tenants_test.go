package engine

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/catalog"
)

// limitedTo has an engine run the instances of tenants only.
func limitedTo(tenants ...string) func(*Config) {
	return func(c *Config) { c.Tenants = tenants }
}

// TestEngineOfTenants runs instances of its tenants, and leaves those that it starts for others, alone or
// several at once, to other engines. A start says that nobody serves those.
func TestEngineOfTenants(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calls(1))
		r.act("echo", echo)
		e := r.serve(limitedTo("acme", ""), named("bound"), func(c *Config) {
			c.Signatures = []Signature{{Name: catalog.Name{Route: "flow"}}}
		})
		r.warm()
		r.pass(time.Second)
		in := func(tenant, id string) Start {
			return Start{Ref: Ref{Tenant: tenant, ID: id}, Name: "flow", Input: []byte("x")}
		}
		started, err := e.Start(r.Context(), in("beta", "alone"))
		r.must(err)
		want(r, "unserved of another tenant", started[0].Unserved, true)
		for _, starts := range [][]Start{{in("beta", "b"), in("beta", "b2")}, {in("", "c"), in("", "c2")}, {in("acme", "a"), in("acme", "a2")}} {
			started, err = e.Start(r.Context(), starts...)
			r.must(err)
		}
		want(r, "unserved of its tenant", started[0].Unserved, false)
		r.pass(time.Minute)
		for ref, status := range map[Ref]Status{
			{Tenant: "acme", ID: "a"}: Completed, {ID: "c"}: Completed, {Tenant: "acme", ID: "a2"}: Completed, {ID: "c2"}: Completed,
			{Tenant: "beta", ID: "b"}: Pending, {Tenant: "beta", ID: "b2"}: Pending, {Tenant: "beta", ID: "alone"}: Pending,
		} {
			info, err := e.Get(r.Context(), ref)
			r.must(err)
			want(r, "status of "+ref.Tenant+"/"+ref.ID, info.Status, status)
		}
		want(r, "tenants in the roster", len(r.workers()[0].Tenants), 2)
	})
}
