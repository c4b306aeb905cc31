package operation

import (
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
)

// Kind is what is done to each instance.
type Kind string

// Kinds of operations.
const (
	Cancel    Kind = "cancel"    // those that have not ended are asked to
	Terminate Kind = "terminate" // those that have not ended are ended
	Suspend   Kind = "suspend"   // those that are pending or running wait
	Resume    Kind = "resume"    // those that are suspended or have stalled go on
	Restart   Kind = "restart"   // those that have ended are started once more
	Rewind    Kind = "rewind"    // those that have failed go on from before their failure
	Delete    Kind = "delete"    // those that have ended are removed
)

// Kinds are all of them.
var Kinds = []Kind{Cancel, Terminate, Suspend, Resume, Restart, Rewind, Delete}

// Status is how far an operation is.
type Status string

// Statuses of an operation.
const (
	Pending   Status = "pending"   // nobody has begun
	Running   Status = "running"   // some may be done
	Completed Status = "completed" // all are done, skipped or failed
	Cancelled Status = "cancelled" // cancelled by a client; what is done is not undone
	Failed    Status = "failed"    // it cannot go on
)

// Statuses are all of them.
var Statuses = []Status{Pending, Running, Completed, Cancelled, Failed}

// Ended reports whether nothing will be done any more.
func (s Status) Ended() bool { return s == Completed || s == Cancelled || s == Failed }

// Request says what to do.
type Request struct {
	// ID names the operation within its tenant, or among those about all tenants; without
	// it, it gets one. Starting the same operation twice under an ID starts one.
	ID string

	Kind Kind

	// Filter says to which instances it is done. It must name a tenant, unless All is set.
	// Its Descending, Limit and Cursor must not be set.
	Filter abide.Filter

	// All means that instances of all tenants are meant, so that nobody ends everything by
	// leaving something out.
	All bool

	// Reason is why, for people; instances are given it where they can be. By is who asked.
	Reason string
	By     string
}

// Operation is one thing that is done to many instances.
type Operation struct {
	ID   string
	Kind Kind

	// Filter, All, Reason and By are those of the request.
	Filter abide.Filter
	All    bool
	Reason string
	By     string

	Status Status

	// Error is why it has failed.
	Error string

	// CreatedAt is when it was asked for, BegunAt when a process began, and EndedAt when it
	// ended, by the store's clock; zero if that has not happened. UpdatedAt is when any of
	// what is here changed.
	CreatedAt time.Time
	BegunAt   time.Time
	EndedAt   time.Time
	UpdatedAt time.Time

	// Total is about how many instances there are to look at, and 0 if that is not known: if
	// they could not be counted within 5 s.
	Total int

	// Matched is how many instances there were so far. Of these, Done is to how many it was
	// done, Skipped how many there were whose status did not allow it or that were gone, and
	// Failed with how many it did not work.
	Matched int
	Done    int
	Skipped int
	Failed  int

	// Errors are the first few of what went wrong.
	Errors []Failure

	// Version grows with each change.
	Version int64

	under  string // tenant of its record and message
	pages  int    // how many were gone through
	cursor string // of the next page
}

// Failure is what went wrong with an instance.
type Failure struct {
	Ref   abide.Ref
	Error string
}

// Limits of an operation.
const (
	// MaxID, MaxBy and MaxReason are the largest lengths, in bytes.
	MaxID     = 256
	MaxBy     = 256
	MaxReason = 1024

	// MaxErrors is how many errors are kept, and MaxError how much of each, in bytes.
	MaxErrors = 10
	MaxError  = 512

	// Retention is how long an operation is kept that has ended.
	Retention = 7 * 24 * time.Hour

	// MaxPage is the largest page of a list, and DefaultPage the one of a list that does not
	// say.
	MaxPage     = 1_000
	DefaultPage = 100
)

// same reports whether a request asks for what the operation does.
func (o *Operation) same(r *Request) bool {
	f, g := &o.Filter, &r.Filter
	return o.Kind == r.Kind && o.All == r.All && tenantName(f) == tenantName(g) &&
		slices.Equal(f.Orchestrations, g.Orchestrations) && slices.Equal(f.Statuses, g.Statuses) &&
		f.From.Equal(g.From) && f.To.Equal(g.To) && maps.Equal(f.Tags, g.Tags) && f.Prefix == g.Prefix && f.Parent == g.Parent && f.Build == g.Build
}

// defaultTenant is what people call the empty tenant.
const defaultTenant = "default"

// Tenant returns the name of the tenant whose instances are meant, "default" for the empty
// one, and "" for all of them.
func (o *Operation) Tenant() string { return tenantName(&o.Filter) }

func tenantName(f *abide.Filter) string {
	switch {
	case f.Tenant == nil:
		return ""
	case *f.Tenant == "":
		return defaultTenant
	default:
		return *f.Tenant
	}
}

// copied returns a filter that shares nothing with f, with the empty tenant for "default".
func copied(f *abide.Filter) abide.Filter {
	c := abide.Filter{From: base.Millis(f.From), To: base.Millis(f.To), Prefix: f.Prefix, Parent: f.Parent, Build: f.Build}
	if f.Tenant != nil {
		tenant := *f.Tenant
		if tenant == defaultTenant {
			tenant = ""
		}
		c.Tenant = &tenant
	}
	if len(f.Orchestrations) > 0 {
		c.Orchestrations = slices.Clone(f.Orchestrations)
	}
	if len(f.Statuses) > 0 {
		c.Statuses = slices.Clone(f.Statuses)
	}
	if len(f.Tags) > 0 {
		c.Tags = maps.Clone(f.Tags)
	}
	return c
}
