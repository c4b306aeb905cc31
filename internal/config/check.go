package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/auth"
)

// check finds values that do not go together.
func (l *loader) check() {
	c := &l.loaded.Config
	l.checkServing(c)
	l.checkAuth(c)
	names := l.checkTargets(c)
	l.checkHooks(c, names)
	l.checkSinks(c)
}

// wrong notes a mistake about a key, with where it, or what it is in, came from.
func (l *loader) wrong(key, value, format string, args ...any) {
	where := ""
	for k := key; k != "" && where == ""; {
		where = l.loaded.where[k]
		cut := strings.LastIndexAny(k, ".[")
		k = k[:max(cut, 0)]
	}
	if where == fromDefault && value == "" {
		where = ""
	}
	l.mistake(key, value, where, format, args...)
}

var (
	goodPrefix = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)
	goodHost   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

func (l *loader) checkServing(c *Config) {
	if c.Addr == "" {
		l.wrong("addr", "", "it is empty; it must be such as 127.0.0.1:7171")
	}
	if !goodPrefix.MatchString(c.Prefix) {
		l.wrong("prefix", c.Prefix, "it must be a path such as /abide, with no slash at its end")
	}
	if err := c.Exposed(c.Addr); err != nil {
		l.wrong("addr", c.Addr, "%v", err)
	}
	if worker := c.WorkerAddr(); worker != "" {
		if err := c.Exposed(worker); err != nil && c.Exposed(c.Addr) == nil { // or one mistake is said twice
			l.wrong("worker_addr", c.Workers, "%v", err)
		}
		if c.Workers == c.Addr && !strings.HasSuffix(c.Workers, ":0") {
			l.wrong("worker_addr", c.Workers, "it is the same as addr; it needs a port of its own")
		}
	}
	if hubs := c.TaskHubs; hubs != "" {
		if err := c.Exposed(hubs); err != nil && c.Exposed(c.Addr) == nil {
			l.wrong("durabletask_addr", hubs, "%v", err)
		}
		if (hubs == c.Addr || hubs == c.WorkerAddr()) && !strings.HasSuffix(hubs, ":0") {
			l.wrong("durabletask_addr", hubs, "it is the same as addr or worker_addr; it needs a port of its own")
		}
	}
	if c.Admin != "" && c.Admin == c.Addr && !strings.HasSuffix(c.Admin, ":0") {
		l.wrong("admin_addr", c.Admin, "it is the same as addr; it needs a port of its own")
	}
	if c.Admin != "" && !c.Insecure && !IsLoopback(c.Admin) {
		l.wrong("admin_addr", c.Admin, "profiles and metrics are served there without authentication: only loopback is allowed, such as 127.0.0.1:7173, unless insecure is true")
	}
	if u, err := url.Parse(strings.TrimSuffix(c.URL, "/")); c.URL != "" && (err != nil || *u != url.URL{Scheme: u.Scheme, Host: u.Host}) {
		shown := c.URL
		if err == nil {
			shown = u.Redacted()
		}
		l.wrong("url", shown, "it must be a scheme, a host and a port, such as https://abide.example.com; the path is in prefix")
	}
	for i, host := range c.Hosts {
		if !goodHost.MatchString(host) {
			l.wrong(fmt.Sprintf("hosts[%d]", i), host, "it must be a name such as abide.example.com, with no scheme and no port")
		}
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		l.wrong("tls", "", "cert and key go together; one of them is missing")
	}
	if c.TLS.Cert == "" && c.TLS.ClientCA != "" {
		l.wrong("tls.client_ca", c.TLS.ClientCA, "certificates are only asked for with tls.cert and tls.key")
	}
	if c.TLS.RequireClient && c.TLS.ClientCA == "" {
		l.wrong("tls.require_client", "true", "it needs tls.client_ca, which says whose certificates count")
	}
}

// IsLoopback reports whether only this machine reaches an address to listen at.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Guarded reports whether a way to authenticate is configured.
func (c *Config) Guarded() bool {
	return !c.Auth.AdminToken.IsZero() || c.Auth.OIDC.Issuer != "" || len(c.Auth.Certificates) > 0 || c.Auth.Required
}

// Off is the address of what is not served.
const Off = "off"

// WorkerAddr returns where workers connect, and nothing if none can. Unless it is configured, it is the port
// after that of the API, on loopback.
func (c *Config) WorkerAddr() string {
	switch {
	case c.Workers == Off:
		return ""
	case c.Workers != "":
		return c.Workers
	case !IsLoopback(c.Addr):
		return ""
	}
	host, text, err := net.SplitHostPort(c.Addr)
	port, parseErr := strconv.ParseUint(text, 10, 16)
	if err != nil || parseErr != nil || port == math.MaxUint16 {
		return ""
	}
	if port > 0 {
		port++
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10))
}

// Exposed returns an error if others than this machine reach an address to listen at, and
// nobody has to prove who they are.
func (c *Config) Exposed(addr string) error {
	if c.Insecure || c.Guarded() || IsLoopback(addr) {
		return nil
	}
	return errors.New("every client that reaches it could do everything: set auth.admin_token, auth.oidc, auth.certificates or auth.required, " +
		"listen on loopback, such as 127.0.0.1:7171, or say insecure if that is what you want")
}

func (l *loader) checkAuth(c *Config) {
	if token := c.Auth.AdminToken.Reveal(); token != "" {
		if err := auth.CheckAdminToken(token); err != nil {
			l.wrong("auth.admin_token", "", "%v", err)
		}
	}
	l.checkLogin(c)
	for i := range c.Auth.Certificates {
		r, key := &c.Auth.Certificates[i], fmt.Sprintf("auth.certificates[%d]", i)
		if r.CommonName == "" && r.DNS == "" && r.URI == "" && r.Email == "" {
			l.wrong(key, "", "it matches every certificate; set common_name, dns, uri or email")
		}
		for name, pattern := range map[string]string{"common_name": r.CommonName, "dns": r.DNS, "uri": r.URI, "email": r.Email} {
			if strings.Count(pattern, "*") > 1 {
				l.wrong(key+"."+name, pattern, "one * is allowed")
			}
		}
	}
	if len(c.Auth.Certificates) > 0 && c.TLS.ClientCA == "" {
		l.wrong("auth.certificates", "", "they need tls.client_ca, which says whose certificates count")
	}
}

var roles = []string{"read", "operate", "worker", "admin"}

func (l *loader) checkLogin(c *Config) {
	const all = "logging in needs auth.oidc.issuer, client_id, role_claim and roles, and url, where browsers find the server"
	o := &c.Auth.OIDC
	if o.Issuer == "" && o.ClientID == "" && o.ClientSecret.IsZero() && o.RoleClaim == "" && len(o.Roles) == 0 {
		return
	}
	for _, need := range []struct{ key, value string }{
		{"auth.oidc.issuer", o.Issuer}, {"auth.oidc.client_id", o.ClientID}, {"auth.oidc.role_claim", o.RoleClaim}, {"url", c.URL},
	} {
		if need.value == "" {
			l.wrong(need.key, "", "it is missing; %s", all)
		}
	}
	if len(o.Roles) == 0 {
		l.wrong("auth.oidc.roles", "", "it is missing; %s", all)
	}
	for role := range o.Roles {
		if !slices.Contains(roles, role) {
			l.wrong("auth.oidc.roles."+role, "", "there is no such role; allowed are %s", strings.Join(roles, ", "))
		}
	}
}

// checkTargets returns the names of the targets.
func (l *loader) checkTargets(c *Config) []string {
	var names []string
	for i := range c.Targets {
		name, key := c.Targets[i].Name, fmt.Sprintf("targets[%d].name", i)
		if slices.Contains(names, name) {
			l.wrong(key, name, "another target has that name")
		}
		names = append(names, name)
	}
	return names
}

func (l *loader) checkHooks(c *Config, targets []string) {
	var slugs []string
	for i := range c.Hooks {
		h, key := &c.Hooks[i], fmt.Sprintf("hooks[%d]", i)
		if err := action.CheckSlug(h.Slug); err != nil {
			l.wrong(key+".slug", h.Slug, "%v", err)
		}
		if slices.Contains(slugs, h.Slug) {
			l.wrong(key+".slug", h.Slug, "another hook has that slug")
		}
		slugs = append(slugs, h.Slug)
		l.checkHookTarget(c, h, key, targets)
		if v := h.Verifier(); v != nil {
			if _, err := v.Open(); err != nil {
				l.wrong(key+".verify", "", "%v", err)
			}
		}
	}
}

// checkHookTarget finds a hook whose target is not there, or not for the hook's tenant.
func (l *loader) checkHookTarget(c *Config, h *Hook, key string, targets []string) {
	i := slices.Index(targets, h.Target)
	switch {
	case i < 0 && !h.External:
		known := "targets has none"
		if len(targets) > 0 {
			known = "known are: " + strings.Join(targets, ", ")
		}
		l.wrong(key+".target", h.Target, "there is no such target; %s; set external to true if another process on the same store serves it", known)
	case i >= 0 && h.External:
		l.wrong(key+".external", "true", "target %s is in targets: this process serves it", h.Target)
	case i >= 0 && len(c.Targets[i].Tenants) > 0 && !slices.Contains(c.Targets[i].Tenants, h.Tenant):
		l.wrong(key+".target", h.Target, "the target is for other tenants than %s, which the hook is for: add it to targets[%d].tenants", h.Tenant, i)
	}
}

// TenantsOf returns the tenants that a target is for: those that it names, or else those of the
// hooks that use it. Nil means all tenants.
func (c *Config) TenantsOf(t *Target) []string {
	if len(t.Tenants) > 0 {
		return t.Tenants
	}
	var tenants []string
	for i := range c.Hooks {
		if h := &c.Hooks[i]; h.Target == t.Name && !slices.Contains(tenants, h.Tenant) {
			tenants = append(tenants, h.Tenant)
		}
	}
	return tenants
}

var goodSink = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (l *loader) checkSinks(c *Config) {
	var names []string
	for i := range c.Sinks {
		s, key := &c.Sinks[i], fmt.Sprintf("sinks[%d]", i)
		if !goodSink.MatchString(s.Name) {
			l.wrong(key+".name", s.Name, "1 to 64 letters, digits, dots, dashes and underscores are allowed")
		}
		if slices.Contains(names, s.Name) {
			l.wrong(key+".name", s.Name, "another sink has that name")
		}
		names = append(names, s.Name)
		if s.First > 0 && s.Cap > 0 && s.First > s.Cap {
			l.wrong(key+".first_retry", s.First.String(), "it is more than longest_retry, %v", s.Cap)
		}
	}
}

// isEmpty reports whether a value is not set.
func isEmpty(v reflect.Value) bool {
	if z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v); ok {
		return z.IsZero()
	}
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}
