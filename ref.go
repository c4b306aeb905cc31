package abide

import "github.com/abidehq/abide/internal/engine"

// DefaultTenant is another name for the empty tenant, for where a name cannot be empty,
// such as in a URL. Whoever is handed it as the tenant of an instance takes it for the
// empty one; what comes out, as in [Info], has the empty one.
const DefaultTenant = "default"

// Ref names an instance: an ID within a tenant. The tenant may be empty, and
// [DefaultTenant] is the same.
type Ref struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// tenantOf returns the tenant that is meant: the one place that knows [DefaultTenant].
func tenantOf(tenant string) string {
	if tenant == DefaultTenant {
		return ""
	}
	return tenant
}

// refOf returns the reference that is meant.
func refOf(r Ref) engine.Ref { return engine.Ref{Tenant: tenantOf(r.Tenant), ID: r.ID} }

// String returns the reference for people.
func (r Ref) String() string { return engine.Ref(r).String() }

// Status is what an instance is doing.
type Status string

// What an instance can be doing.
const (
	Pending    = Status(engine.Pending)    // it was started, and its code has not begun
	Running    = Status(engine.Running)    // its code has begun
	Suspended  = Status(engine.Suspended)  // somebody told it to wait; it goes on when resumed
	Stalled    = Status(engine.Stalled)    // its code cannot go on; it does when resumed after a fix
	Completed  = Status(engine.Completed)  // it has a result
	Failed     = Status(engine.Failed)     // its code returned an error
	Cancelled  = Status(engine.Cancelled)  // it came to an end because it was asked to
	Terminated = Status(engine.Terminated) // it was ended without being asked
	Continued  = Status(engine.Continued)  // of an execution: it went on as the next one
)

// Ended reports whether nothing will happen to the instance any more.
func (s Status) Ended() bool { return engine.Status(s).Ended() }
