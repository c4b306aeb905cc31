package auth

import (
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Certificate maps client certificates to an identity. All that is set of
// CommonName, DNS, URI and Email must match, and at least one must be set. A * in them
// stands for any text, once.
type Certificate struct {
	CommonName string // of the subject
	DNS        string // one of the subject's alternative names, as are the next two
	URI        string
	Email      string

	// Name is for people. Empty means what has matched.
	Name string

	Role Role

	// Tenants are those whose data it may see and change; nil means all.
	Tenants []string

	// Serve are the names of orchestrations and activities that a worker may serve with it, as in
	// [NewToken]; nil means all.
	Serve []string
}

func (c *Certificate) check() error {
	const verb = "new guard"
	switch {
	case c.CommonName == "" && c.DNS == "" && c.URI == "" && c.Email == "":
		return invalid(verb, "a rule for certificates matches all of them; set CommonName, DNS, URI or Email")
	case !c.Role.known():
		return invalid(verb, "a rule for certificates has role %q; allowed: %s", c.Role, roleNames())
	case c.Tenants != nil && len(c.Tenants) == 0:
		return invalid(verb, "a rule for certificates is for no tenant; name some, or none of them for all")
	}
	for _, p := range []string{c.CommonName, c.DNS, c.URI, c.Email} {
		if strings.Count(p, "*") > 1 {
			return invalid(verb, "the pattern %q for certificates has more than one *", p)
		}
	}
	return checkServe(verb, "a rule for certificates", c.Role, c.Serve)
}

// match returns what of a certificate the rule goes by, if it does.
func (c *Certificate) match(cert *x509.Certificate) (subject string, ok bool) {
	uris := make([]string, len(cert.URIs))
	for i, u := range cert.URIs {
		uris[i] = u.String()
	}
	for _, part := range []struct {
		pattern string
		values  []string
	}{
		{c.URI, uris},
		{c.DNS, cert.DNSNames},
		{c.Email, cert.EmailAddresses},
		{c.CommonName, []string{cert.Subject.CommonName}},
	} {
		if part.pattern == "" {
			continue
		}
		i := slices.IndexFunc(part.values, func(v string) bool { return like(part.pattern, v) })
		if i < 0 {
			return "", false
		}
		if subject == "" {
			subject = part.values[i]
		}
	}
	return subject, true
}

// like reports whether a value is that of a pattern, in which a * stands for any text.
func like(pattern, value string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return value == pattern
	}
	return len(value) >= len(before)+len(after) && strings.HasPrefix(value, before) && strings.HasSuffix(value, after)
}

// byCertificate returns who has made the connection of a request, if a rule knows. Only a
// certificate that the server has verified counts.
func (g *Guard) byCertificate(r *http.Request, now time.Time) (Identity, bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return Identity{}, false
	}
	cert := r.TLS.VerifiedChains[0][0]
	if now.After(cert.NotAfter) { // since the connection was made
		return Identity{}, false
	}
	for i := range g.cfg.Certificates {
		rule := &g.cfg.Certificates[i]
		subject, ok := rule.match(cert)
		if !ok {
			continue
		}
		name := rule.Name
		if name == "" {
			name = subject
		}
		return Identity{Kind: ByCertificate, Subject: subject, Name: name, Role: rule.Role, Tenants: slices.Clone(rule.Tenants), Serve: slices.Clone(rule.Serve)}, true
	}
	return Identity{}, false
}
