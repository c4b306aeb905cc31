package abide

import "github.com/abidehq/abide/internal/engine"

// DefaultTenant is another name of the empty tenant, for places where a name cannot be empty,
// such as URLs. All functions accept it as the tenant of an instance. Results such as [Info] have
// the empty tenant.
const DefaultTenant = "default"

// Ref identifies an instance by its tenant and ID. An empty tenant and [DefaultTenant] are the
// same.
type Ref struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id"`
}

// tenantOf returns the canonical tenant: the empty one for [DefaultTenant].
func tenantOf(tenant string) string {
	if tenant == DefaultTenant {
		return ""
	}
	return tenant
}

// canonical returns the reference with its canonical tenant.
func (r Ref) canonical() Ref { return Ref{Tenant: tenantOf(r.Tenant), ID: r.ID} }

// refOf returns the reference with its canonical tenant.
func refOf(r Ref) engine.Ref { return engine.Ref{Tenant: tenantOf(r.Tenant), ID: r.ID} }

// String returns the tenant and ID as text.
func (r Ref) String() string { return engine.Ref(r).String() }

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
