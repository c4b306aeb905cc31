package api

import (
	"cmp"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/operation"
)

// InstanceFilter says which instances are meant: those that match all that is set.
type InstanceFilter struct {
	Tenant         string            `json:"tenant,omitempty" doc:"Whose instances they are."`
	Orchestrations []string          `json:"orchestrations,omitempty" maxItems:"1000" doc:"Of one of these."`
	Statuses       []string          `json:"statuses,omitempty" enum:"pending,running,suspended,stalled,completed,failed,cancelled,terminated" doc:"With one of these."`
	From           time.Time         `json:"from,omitzero" doc:"Started at that time or later."`
	To             time.Time         `json:"to,omitzero" doc:"Started before that time."`
	Tags           map[string]string `json:"tags,omitempty" doc:"With all of these."`
	Prefix         string            `json:"prefix,omitempty" doc:"Whose ID begins with that."`
	Parent         string            `json:"parent,omitempty" doc:"The children of the instance with that ID."`
	Build          string            `json:"build,omitempty" doc:"Pinned to that build."`
}

// Filter returns what the filter says.
func (f *InstanceFilter) Filter() abide.Filter {
	out := abide.Filter{Orchestrations: f.Orchestrations, From: f.From, To: f.To, Tags: f.Tags, Prefix: f.Prefix, Parent: f.Parent, Build: f.Build}
	if f.Tenant != "" {
		tenant := f.Tenant
		out.Tenant = &tenant
	}
	for _, status := range f.Statuses {
		out.Statuses = append(out.Statuses, abide.Status(status))
	}
	return out
}

// FromFilter is the inverse of [InstanceFilter.Filter].
func FromFilter(f *abide.Filter) InstanceFilter {
	out := InstanceFilter{Orchestrations: f.Orchestrations, From: f.From, To: f.To, Tags: f.Tags, Prefix: f.Prefix, Parent: f.Parent, Build: f.Build}
	if f.Tenant != nil {
		out.Tenant = cmp.Or(*f.Tenant, abide.DefaultTenant)
	}
	for _, status := range f.Statuses {
		out.Statuses = append(out.Statuses, string(status))
	}
	return out
}

// NewOperation is one thing to do to many instances.
type NewOperation struct {
	ID     string         `json:"id,omitempty" doc:"A name of your own, within the tenant or among operations on all tenants: starting the same one twice starts one operation."`
	Kind   string         `json:"kind" enum:"cancel,terminate,suspend,resume,restart,rewind,delete" doc:"What is done to each of them."`
	Filter InstanceFilter `json:"filter,omitzero" doc:"To which instances. It names a tenant, unless all is set."`
	All    bool           `json:"all,omitempty" doc:"Instances of all tenants are meant."`
	Reason string         `json:"reason,omitempty" maxLength:"1024" doc:"Why."`
}

// Request returns what the request says, for who asks.
func (n *NewOperation) Request(by string) operation.Request {
	return operation.Request{
		ID: n.ID, Kind: operation.Kind(n.Kind), Filter: n.Filter.Filter(), All: n.All, Reason: n.Reason, By: by,
	}
}

// Operation is one thing that is done to many instances.
type Operation struct {
	ID        string             `json:"id"`
	Kind      string             `json:"kind" enum:"cancel,terminate,suspend,resume,restart,rewind,delete"`
	Filter    InstanceFilter     `json:"filter"`
	All       bool               `json:"all,omitempty" doc:"Instances of all tenants are meant."`
	Reason    string             `json:"reason,omitempty"`
	By        string             `json:"by,omitempty" doc:"Who asked for it."`
	Status    string             `json:"status" enum:"pending,running,completed,cancelled,failed"`
	Error     string             `json:"error,omitempty" doc:"Why it has failed."`
	CreatedAt time.Time          `json:"created_at"`
	BegunAt   time.Time          `json:"begun_at,omitzero"`
	EndedAt   time.Time          `json:"ended_at,omitzero"`
	UpdatedAt time.Time          `json:"updated_at"`
	Total     int                `json:"total,omitempty" doc:"About how many instances there are to look at; not there if that is not known."`
	Matched   int                `json:"matched" doc:"How many were looked at so far."`
	Done      int                `json:"done" doc:"To how many of them it was done."`
	Skipped   int                `json:"skipped" doc:"How many of them have a status that does not allow it, or were gone."`
	Failed    int                `json:"failed" doc:"With how many of them it did not work."`
	Errors    []OperationFailure `json:"errors,omitempty" doc:"The first few of what went wrong."`
	Version   int64              `json:"version"`
}

// OperationFailure is what went wrong with an instance.
type OperationFailure struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
	Error  string `json:"error"`
}

// Ended reports whether nothing will be done any more.
func (o *Operation) Ended() bool { return operation.Status(o.Status).Ended() }

// FromOperation returns an operation for the wire.
func FromOperation(o *operation.Operation) Operation {
	out := Operation{
		ID: o.ID, Kind: string(o.Kind), Filter: FromFilter(&o.Filter), All: o.All, Reason: o.Reason, By: o.By,
		Status: string(o.Status), Error: o.Error,
		CreatedAt: o.CreatedAt, BegunAt: o.BegunAt, EndedAt: o.EndedAt, UpdatedAt: o.UpdatedAt,
		Total: o.Total, Matched: o.Matched, Done: o.Done, Skipped: o.Skipped, Failed: o.Failed, Version: o.Version,
	}
	for i := range o.Errors {
		e := &o.Errors[i]
		out.Errors = append(out.Errors, OperationFailure{cmp.Or(e.Ref.Tenant, abide.DefaultTenant), e.Ref.ID, e.Error})
	}
	return out
}

// OperationList is a page of operations, the latest first.
type OperationList struct {
	Operations    []Operation `json:"operations"`
	NextPageToken string      `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}
