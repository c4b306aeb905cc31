package auth

import (
	"slices"
	"strings"
)

// known reports whether there is such a role.
func (r Role) known() bool { return slices.Contains(Roles, r) }

// roleNames returns all roles, for an error.
func roleNames() string {
	names := make([]string, len(Roles))
	for i, r := range Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// covers reports whether an identity may do everything that an identity with that role and
// these tenants may do.
func (i *Identity) covers(role Role, tenants []string) bool {
	if !i.Role.Includes(role) {
		return false
	}
	if i.Tenants == nil {
		return true
	}
	return tenants != nil && !slices.ContainsFunc(tenants, func(t string) bool { return !i.Allows(t) })
}
