package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/auth"
)

// request is a request, with who makes it.
type request struct {
	*http.Request
	site *site
	who  auth.Identity
	can  bool // change things

	tenants []string // those that it is about
}

// tenant returns the one tenant that the request is about, or nothing.
func (r *request) tenant() string {
	if len(r.tenants) == 1 {
		return r.tenants[0]
	}
	return ""
}

// about notes the tenant that the request is about, whether or not it is one of the caller's.
func (r *request) about(tenant string) {
	if name := tenantName(tenant); !slices.Contains(r.tenants, name) {
		r.tenants = append(r.tenants, name)
	}
}

func (s *site) request(r *http.Request) *request {
	who, _ := auth.Of(r.Context())
	return &request{Request: r, site: s, who: who, can: who.Role.Includes(auth.Operate)}
}

func (r *request) ctx() context.Context { return r.Context() }

func (r *request) now() time.Time { return r.site.clock.Now() }

// value returns what a query or a form says, without the white space around it.
func (r *request) value(name string) string { return strings.TrimSpace(r.FormValue(name)) }

// values returns the elements of a list in a query or a form, which repeats the name or has
// commas between the elements.
func (r *request) values(name string) []string {
	r.FormValue(name) // parses the form
	var list []string
	for _, text := range r.Form[name] {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" && !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list
}

// tenantName returns the tenant of a form field or of the scope, which may be empty.
func tenantName(tenant string) string { return cmp.Or(tenant, abide.DefaultTenant) }

// A segment of a path is any name. A browser takes the names . and .. out of a path, and
// an empty one is no segment, so these get a mark in front, and so do those that have it.
const mark = "~"

func segment(name string) string {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, mark) {
		name = mark + name
	}
	return url.PathEscape(name)
}

// named returns a name that stands in the path.
func (r *request) named(wildcard string) string {
	return strings.TrimPrefix(r.PathValue(wildcard), mark)
}

// owner returns the tenant that stands in the path, if it is one of the caller's.
func (r *request) owner() (string, error) {
	name := r.named("tenant")
	return name, r.allow(name)
}

// allow returns an error unless a tenant is one of the caller's.
func (r *request) allow(tenant string) error {
	r.about(tenant)
	if !r.who.Allows(tenantName(tenant)) {
		return &refusal{
			status: http.StatusForbidden, title: "No access",
			text: "You have no access to tenant " + tenantName(tenant) + ". An administrator of tokens or logins can change that.",
		}
	}
	return nil
}

// scope is which tenants a list is about.
type scope struct {
	// Asked is the tenant of the list; empty means all.
	Asked string

	// Choices are the tenants that the caller has; nil means all.
	Choices []string
}

// scope returns the tenant that was asked for, if it is one of the caller's, or else the
// first that the caller has.
func (r *request) scope() (scope, error) {
	sc := scope{Asked: r.value("tenant")}
	if r.who.Tenants == nil {
		if sc.Asked != "" {
			r.about(sc.Asked)
		}
		return sc, nil
	}
	sc.Choices = slices.Sorted(slices.Values(r.who.Tenants))
	if len(sc.Choices) == 0 {
		return sc, &refusal{status: http.StatusForbidden, title: "Nothing to see", text: "You have access to no tenant."}
	}
	if sc.Asked == "" {
		sc.Asked = sc.Choices[0]
	}
	return sc, r.allow(sc.Asked)
}

// everything reports whether the caller may see what belongs to no tenant.
func (r *request) everything() bool { return r.who.Tenants == nil }

// onlyEverything returns an error for those who are limited to some tenants.
func (r *request) onlyEverything() error {
	if !r.everything() {
		return &refusal{status: http.StatusForbidden, title: "Not for a tenant", text: "This belongs to no tenant, and you are limited to some."}
	}
	return nil
}

// errNoPage: there is nothing at that address.
var errNoPage = &refusal{status: http.StatusNotFound, title: "No such page", text: "There is nothing at this address. The menu leads to what there is."}

// refusal is an error for the person who caused it.
type refusal struct {
	status int
	title  string
	text   string
}

func (e *refusal) Error() string { return e.text }

// StatusCode returns the status of the answer, for the audit log.
func (e *refusal) StatusCode() int { return e.status }

// mistake returns an error about what a person has filled in.
func mistake(text string) error {
	return &refusal{status: http.StatusBadRequest, title: "That is not right yet", text: text}
}

// isMistake reports whether an error is worth another try by the same person with the same
// form.
func isMistake(err error) bool {
	r := explain(err)
	return r.status >= 400 && r.status < 500 && r.status != http.StatusForbidden && r.status != http.StatusNotFound
}

// gone reports whether the client does not wait for the answer any more.
func gone(r *http.Request, err error) bool {
	return r.Context().Err() != nil && errors.Is(err, context.Canceled)
}
