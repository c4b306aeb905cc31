package web

import (
	"strings"

	"github.com/abidehq/abide"
)

// command is something to copy.
type command struct {
	Label string
	Text  string
}

// origin returns where a browser has reached the server.
func (r *request) origin() string {
	scheme := "http://"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https://"
	}
	return scheme + r.Host
}

// curl returns a command that asks the API for what a page shows, at the same path, where
// names need no mark.
func (s *site) curl(r *request, path string) string {
	text := "curl "
	if s.cfg.Guarded {
		text += `-H "Authorization: Bearer $ABIDE_TOKEN" `
	}
	return text + shellQuote(r.origin()+s.path("/api/v1"+strings.ReplaceAll(path, "/"+mark, "/")))
}

// tool returns a command line of abide that talks to this server.
func (s *site) tool(r *request, args string) string {
	return "abide " + args + " --server " + shellQuote(r.origin()+s.cfg.Prefix)
}

// tenantFlag returns the flag that names a tenant, unless it is the default.
func tenantFlag(tenant string) string {
	if tenantName(tenant) == abide.DefaultTenant {
		return ""
	}
	return " --tenant " + shellQuote(tenant)
}

// commands returns what shows an instance elsewhere.
func (s *site) commands(r *request, ref abide.Ref) []command {
	return []command{
		{"Copy as curl", s.curl(r, instancePath(ref))},
		{"Copy as command", s.tool(r, "instances show "+shellQuote(ref.ID)+tenantFlag(ref.Tenant))},
	}
}
