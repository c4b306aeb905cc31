// Package auth says who may do what: roles, tenants, API tokens, sessions of people who
// have logged in, certificates, and the account of what was done.
package auth

import (
	"context"
	"slices"
)

// Role is a set of permissions. Each role includes the one before it.
type Role string

// Roles, in ascending order.
const (
	Read    Role = "read"    // read everything, the statistics of the store included
	Operate Role = "operate" // start, stop and change instances, timers, actions and schedules
	Worker  Role = "worker"  // run orchestrations and activities, and see what they are given
	Admin   Role = "admin"   // manage tokens, read the audit log
)

// Roles are all of them, in order.
var Roles = []Role{Read, Operate, Worker, Admin}

// Includes reports whether who has the role may do what takes the other one.
func (r Role) Includes(other Role) bool {
	have, need := slices.Index(Roles, r), slices.Index(Roles, other)
	return need >= 0 && have >= need
}

// Kind is how an identity was established.
type Kind string

// Kinds of identities.
const (
	ByToken       Kind = "token"       // an API token
	BySession     Kind = "session"     // a person who has logged in
	ByCertificate Kind = "certificate" // a client certificate
	Local         Kind = "local"       // a client on this machine, without credentials
)

// Identity is who makes a request.
type Identity struct {
	Kind Kind

	// Subject names who it is, the same each time, in the audit log: the ID of a token, the
	// subject of a login or of a certificate.
	Subject string

	// Name is for people.
	Name string

	Role Role

	// Tenants are those whose data it may see and change; nil means all.
	Tenants []string

	// Serve are the orchestrations and activities whose code it may run, see [Identity.Serves]; nil
	// means all.
	Serve []string
}

// Allows reports whether the identity may see and change what is a tenant's.
func (i *Identity) Allows(tenant string) bool {
	return i.Tenants == nil || slices.Contains(i.Tenants, tenant)
}

type contextKey struct{}

// With returns a context that carries who makes the request.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, i)
}

// Of returns who makes the request. Without one, it is nobody, who may do nothing.
func Of(ctx context.Context) (i Identity, ok bool) {
	i, ok = ctx.Value(contextKey{}).(Identity)
	if !ok {
		i.Tenants = []string{}
	}
	return i, ok
}
