package abide

import (
	"cmp"
	"slices"

	"github.com/abidehq/abide/internal/engine"
)

// DefaultTenant is the tenant of instances that are started without one. All functions accept an
// empty tenant in its place; results such as [Info] always have the name.
const DefaultTenant = "default"

// Ref identifies an instance by its tenant and ID. An empty tenant means [DefaultTenant].
type Ref struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// canonical returns the reference with the name of its tenant.
func (r Ref) canonical() Ref { return Ref{Tenant: cmp.Or(r.Tenant, DefaultTenant), ID: r.ID} }

// named returns requests with the names of their tenants, a copy if one of them lacks it.
func named[R any](requests []R, ref func(*R) *Ref) []R {
	copied := false
	for i := range requests {
		if ref(&requests[i]).Tenant != "" {
			continue
		}
		if !copied {
			requests, copied = slices.Clone(requests), true
		}
		ref(&requests[i]).Tenant = DefaultTenant
	}
	return requests
}

// canonicalFilter returns the name of the tenant by which to filter, if any.
func canonicalFilter(tenant *string) *string {
	if tenant == nil {
		return nil
	}
	return new(cmp.Or(*tenant, DefaultTenant))
}

// String returns the tenant and ID as text, without the default tenant.
func (r Ref) String() string { return refOf(r).String() }

// storedTenant returns the tenant as stores and the engine have it: the default tenant is empty
// there.
func storedTenant(tenant string) string {
	if tenant == DefaultTenant {
		return ""
	}
	return tenant
}

// refOf returns the reference for the engine.
func refOf(r Ref) engine.Ref { return engine.Ref{Tenant: storedTenant(r.Tenant), ID: r.ID} }

// refFrom is the inverse of refOf.
func refFrom(r engine.Ref) Ref { return Ref(r).canonical() }

// Status is the status of an instance.
type Status string

// Statuses of instances.
const (
	Pending    = Status(engine.Pending)    // started, the first turn has not run
	Running    = Status(engine.Running)    // the first turn has run
	Suspended  = Status(engine.Suspended)  // stopped by [Client.Suspend] until it is resumed
	Stalled    = Status(engine.Stalled)    // the code cannot proceed; resume after a fix
	Completed  = Status(engine.Completed)  // ended with a result
	Failed     = Status(engine.Failed)     // ended with an error of its code
	Cancelled  = Status(engine.Cancelled)  // ended after a cancellation
	Terminated = Status(engine.Terminated) // ended by [Client.Terminate]
	Continued  = Status(engine.Continued)  // of an execution: continued as new
)

// Ended reports whether the instance has ended.
func (s Status) Ended() bool { return engine.Status(s).Ended() }
