package auth

import (
	"slices"
	"strings"
)

// Serves reports whether the identity, if it has the role worker, may run the code of an orchestration or an
// activity of that name.
func (i *Identity) Serves(name string) bool {
	return i.Serve == nil || slices.ContainsFunc(i.Serve, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return pattern == name || open && strings.HasPrefix(name, prefix)
	})
}

// checkServe reports what is wrong with the names that a role is limited to.
func checkServe(verb, what string, role Role, names []string) error {
	switch {
	case names == nil:
		return nil
	case role != Worker:
		return invalid(verb, "%s is for the names of some orchestrations and activities, which takes the role %s; it has %s", what, Worker, role)
	case len(names) == 0:
		return invalid(verb, "%s may serve nothing; name some orchestrations or activities, or none for all", what)
	case len(names) > MaxServe:
		return invalid(verb, "%s has %d names that it may serve; at most %d are allowed, or all", what, len(names), MaxServe)
	}
	for _, name := range names {
		if !isName(name) || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return invalid(verb, "%s may serve %q; a name has 1 to %d bytes, is text on one line, and may end with a *", what, name, MaxName)
		}
	}
	return nil
}
