package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

const adminToken = "a-token-for-containers"

func TestIdentify(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := people(r.guard(Config{AdminToken: adminToken}))
	_, secret := r.token(g, NewToken{Name: "a service"})
	cookie, err := g.startSession(t.Context(), session{kind: BySession, subject: "p1", name: "a person", role: Operate})
	check.OK(t, err)
	bearer, session := "Authorization: Bearer ", "Cookie: abide_session="
	for name, tt := range map[string]struct {
		headers []string
		who     string
		err     error
	}{
		"token":                    {[]string{bearer + secret}, "a service", nil},
		"scheme in lower case":     {[]string{"Authorization: bearer  " + secret}, "a service", nil},
		"admin token":              {[]string{bearer + adminToken}, "admin", nil},
		"session":                  {[]string{session + cookie}, "a person", nil},
		"other cookies":            {[]string{"Cookie: theme=dark; abide_session=" + cookie}, "a person", nil},
		"nothing":                  {nil, "", ErrNone},
		"cookies of others":        {[]string{"Cookie: theme=dark"}, "", ErrNone},
		"empty cookie":             {[]string{session}, "", ErrNone},
		"unknown session":          {[]string{session + newSecret()}, "", ErrUnknown},
		"odd session":              {[]string{session + "x"}, "", ErrUnknown},
		"unknown token":            {[]string{bearer + writeToken(newID(), newSecret())}, "", ErrUnknown},
		"half a token":             {[]string{bearer + secret[:40]}, "", ErrMalformed},
		"half the admin token":     {[]string{bearer + adminToken[:16]}, "", ErrMalformed},
		"empty header":             {[]string{"Authorization: "}, "", ErrMalformed},
		"scheme alone":             {[]string{"Authorization: Bearer"}, "", ErrMalformed},
		"scheme and space":         {[]string{"Authorization: Bearer  "}, "", ErrMalformed},
		"unknown scheme":           {[]string{"Authorization: Basic " + secret}, "", ErrMalformed},
		"no scheme":                {[]string{"Authorization: " + secret}, "", ErrMalformed},
		"two tokens":               {[]string{bearer + secret + ", Bearer " + secret}, "", ErrMalformed},
		"two headers":              {[]string{bearer + secret, bearer + secret}, "", ErrMalformed},
		"two sessions":             {[]string{session + cookie + "; abide_session=" + cookie}, "", ErrMalformed},
		"a token and a session":    {[]string{bearer + secret, session + cookie}, "", ErrMalformed},
		"a very long token":        {[]string{bearer + strings.Repeat("a", maxCredential)}, "", ErrMalformed},
		"an empty admin token":     {[]string{"Authorization: Bearer \x00"}, "", ErrMalformed},
		"a token with a null byte": {[]string{bearer + secret + "\x00"}, "", ErrMalformed},
	} {
		who, err := g.Identify(request(http.MethodGet, "/", tt.headers...))
		if !errors.Is(err, tt.err) || who.Name != tt.who {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if err != nil {
			if who.Role != "" {
				t.Errorf("%s: an error, and an identity: %+v", name, who)
			}
			for _, private := range []string{secret[25:60], cookie, adminToken[:16]} {
				if strings.Contains(err.Error(), private) {
					t.Errorf("%s: the error tells a secret: %v", name, err)
				}
			}
		}
	}
	if strings.Contains(r.log.String(), secret[25:60]) || strings.Contains(r.log.String(), cookie) {
		t.Error("a secret is in the log")
	}
	// A token in the address would be in every log on the way.
	for _, query := range []string{"token", "access_token", "bearer"} {
		if _, err := g.Identify(request(http.MethodGet, "/?"+query+"="+secret)); !errors.Is(err, ErrNone) {
			t.Errorf("a token in the address: %v", err)
		}
	}
}

func TestNoAdminTokenIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	g := newFixture(t).guard(Config{})
	if g.isAdminToken("") {
		t.Error("the empty token is that of an admin")
	}
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	anonymous := Identity{Kind: Local, Subject: "local", Name: "local", Role: Operate, Tenants: []string{"a"}}
	g := r.guard(Config{Anonymous: &anonymous})
	_, secret := r.token(g, NewToken{Name: "a service"})
	for name, tt := range map[string]struct {
		r    *http.Request
		want string
		err  error
	}{
		"nothing":                        {request(http.MethodGet, "/"), "local", nil},
		"a program posts":                {request(http.MethodPost, "/"), "local", nil},
		"a token":                        {with(secret), "a service", nil},
		"a wrong token":                  {with(secret[:30]), "", ErrMalformed},
		"a cookie of another server":     {request(http.MethodGet, "/", "Cookie: abide_session="+newSecret()), "local", nil},
		"our page posts":                 {request(http.MethodPost, "/", "Sec-Fetch-Site: same-origin"), "local", nil},
		"another origin's page posts":    {request(http.MethodPost, "/", "Sec-Fetch-Site: cross-site"), "", ErrCrossOrigin},
		"an old browser's page posts":    {request(http.MethodPost, "http://a.example/", "Origin: http://b.example"), "", ErrCrossOrigin},
		"another origin's page deletes":  {request(http.MethodDelete, "/", "Sec-Fetch-Site: same-site"), "", ErrCrossOrigin},
		"another origin's page links us": {request(http.MethodGet, "/", "Sec-Fetch-Site: cross-site"), "local", nil},
	} {
		who, err := g.Identify(tt.r)
		if !errors.Is(err, tt.err) || who.Name != tt.want {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

// TestCrossOrigin: what a browser sends on its own is not enough when a page of another
// origin has made it do so. A token is: a browser never adds one.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := people(r.guard(Config{URL: "https://abide.example.com"}))
	_, secret := r.token(g, NewToken{})
	cookie, err := g.startSession(t.Context(), session{kind: BySession, subject: "p1", name: "a person", role: Operate})
	check.OK(t, err)
	session := "Cookie: __Host-abide_session=" + cookie
	cross := "Sec-Fetch-Site: cross-site"
	for name, tt := range map[string]struct {
		r   *http.Request
		err error
	}{
		"cookie, ours":                      {request(http.MethodPost, "/", session, "Sec-Fetch-Site: same-origin"), nil},
		"cookie, theirs":                    {request(http.MethodPost, "/", session, cross), ErrCrossOrigin},
		"cookie, theirs, PUT":               {request(http.MethodPut, "/", session, cross), ErrCrossOrigin},
		"cookie, theirs, GET":               {request(http.MethodGet, "/", session, cross), nil},
		"cookie, theirs, by Origin":         {request(http.MethodPost, "http://inside:7171/", session, "Origin: https://evil.example"), ErrCrossOrigin},
		"cookie, ours, by Origin and proxy": {request(http.MethodPost, "http://inside:7171/", session, "Origin: https://abide.example.com"), nil},
		"token, theirs":                     {request(http.MethodPost, "/", "Authorization: Bearer "+secret, cross), nil},
	} {
		if _, err := g.Identify(tt.r); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := people(r.guard(Config{AdminToken: adminToken, Rate: 50}))
	own, slow := r.token(g, NewToken{Rate: 0.5})
	_, usual := r.token(g, NewToken{})
	// pass returns how many requests in a row come through, and when the next one would.
	pass := func(request *http.Request) (int, time.Duration) {
		for n := range 1000 {
			_, err := g.Identify(request)
			if limit, ok := errors.AsType[*RateError](err); ok {
				if !strings.Contains(err.Error(), limit.After.String()) {
					t.Errorf("%v does not say when", err)
				}
				return n, limit.After
			}
			check.OK(t, err)
		}
		return 1000, 0
	}
	if n, after := pass(with(slow)); n != Burst || after != 2*time.Second {
		t.Errorf("its own rate: %d, then after %v", n, after)
	}
	if n, after := pass(with(usual)); n != 50 || after != 20*time.Millisecond {
		t.Errorf("the rate of the server: %d, then after %v", n, after)
	}
	if n, _ := pass(with(adminToken)); n != 50 {
		t.Errorf("the admin token: %d", n)
	}
	r.clock.Advance(2*time.Second - time.Millisecond)
	if n, _ := pass(with(slow)); n != 0 {
		t.Errorf("too early: %d", n)
	}
	r.clock.Advance(time.Millisecond)
	if n, _ := pass(with(slow)); n != 1 {
		t.Errorf("when it said: %d", n)
	}
	// A session of the token has no more than the token.
	cookie, err := g.startSession(t.Context(), session{kind: ByToken, token: own.ID})
	check.OK(t, err)
	if n, _ := pass(request(http.MethodGet, "/", "Cookie: abide_session="+cookie)); n != 0 {
		t.Errorf("its session: %d", n)
	}
	person, err := g.startSession(t.Context(), session{kind: BySession, subject: "p1", name: "a person", role: Read})
	check.OK(t, err)
	if n, _ := pass(request(http.MethodGet, "/", "Cookie: abide_session="+person)); n != 50 {
		t.Errorf("a person: %d", n)
	}
	_, fast := r.token(g, NewToken{Rate: MaxRate})
	if n, _ := pass(with(fast)); n != 1000 {
		t.Errorf("a rate that is higher than the server's: %d", n)
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	g := newFixture(t).guard(Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	for _, tt := range []struct {
		from, forwarded, want string
	}{
		{"192.0.2.1:4000", "", "192.0.2.1"},
		{"192.0.2.1:4000", "203.0.113.9", "192.0.2.1"},
		{"10.1.1.1:4000", "203.0.113.9", "203.0.113.9"},
		{"10.1.1.1:4000", "1.2.3.4, 203.0.113.9, 10.2.2.2", "203.0.113.9"},
		{"10.1.1.1:4000", "", "10.1.1.1"},
		{"10.1.1.1:4000", "not an address", "10.1.1.1"},
		{"10.1.1.1:4000", "10.3.3.3", "10.3.3.3"},
		{"[::ffff:10.1.1.1]:4000", "203.0.113.9", "203.0.113.9"},
		{"[fd00::1]:4000", "2001:db8::7", "2001:db8::7"},
		{"@", "203.0.113.9", "@"},
	} {
		r := request(http.MethodGet, "/")
		r.RemoteAddr = tt.from
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := g.Remote(r); got != tt.want {
			t.Errorf("%s, forwarded %q: %s, want %s", tt.from, tt.forwarded, got, tt.want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	rule := []Certificate{{CommonName: "a", Role: Read}}
	good := OIDC{Issuer: "https://login.example.com", ClientID: "c", RoleClaim: "groups", Roles: map[Role][]string{Read: {"x"}}}
	for name, tt := range map[string]struct {
		change func(*Config)
		key    string // what the error names; empty: there is none
	}{
		"nothing":                   {func(*Config) {}, ""},
		"all":                       {func(c *Config) { c.URL, c.OIDC, c.Certificates, c.Prefix = "https://a.example/", &good, rule, "/abide" }, ""},
		"no store":                  {func(c *Config) { c.Store = nil }, "Config.Store"},
		"prefix":                    {func(c *Config) { c.Prefix = "abide" }, "Config.Prefix"},
		"prefix with an end":        {func(c *Config) { c.Prefix = "/abide/" }, "Config.Prefix"},
		"URL without a scheme":      {func(c *Config) { c.URL = "a.example" }, "Config.URL"},
		"URL with a path":           {func(c *Config) { c.URL = "https://a.example/x" }, "Config.URL"},
		"short admin token":         {func(c *Config) { c.AdminToken = "admin" }, "Config.AdminToken"},
		"admin token of one word":   {func(c *Config) { c.AdminToken = "adminadminadmin1" }, "Config.AdminToken"},
		"admin token with a space":  {func(c *Config) { c.AdminToken = "a-token for-containers" }, "Config.AdminToken"},
		"anonymous without a role":  {func(c *Config) { c.Anonymous = &Identity{} }, "Config.Anonymous"},
		"negative rate":             {func(c *Config) { c.Rate = -1 }, "Config.Rate"},
		"short retention":           {func(c *Config) { c.AuditRetention = time.Hour }, "Config.AuditRetention"},
		"retention for ever":        {func(c *Config) { c.AuditRetention = -1 }, ""},
		"certificate of all":        {func(c *Config) { c.Certificates = []Certificate{{Role: Read}} }, "certificates"},
		"certificate without role":  {func(c *Config) { c.Certificates = []Certificate{{CommonName: "a"}} }, "certificates"},
		"certificate, two stars":    {func(c *Config) { c.Certificates = []Certificate{{DNS: "*.*", Role: Read}} }, "certificates"},
		"certificate of no tenant":  {func(c *Config) { c.Certificates = []Certificate{{DNS: "a", Role: Read, Tenants: []string{}}} }, "certificates"},
		"OIDC without a URL":        {func(c *Config) { o := good; c.OIDC = &o }, "Config.URL"},
		"OIDC without an issuer":    {func(c *Config) { o := good; o.Issuer = ""; c.OIDC, c.URL = &o, "http://a" }, "OIDC.Issuer"},
		"OIDC in plain text":        {func(c *Config) { o := good; o.Issuer = "http://login.example"; c.OIDC, c.URL = &o, "http://a" }, "https"},
		"OIDC without a client":     {func(c *Config) { o := good; o.ClientID = ""; c.OIDC, c.URL = &o, "http://a" }, "OIDC.ClientID"},
		"OIDC without a claim":      {func(c *Config) { o := good; o.RoleClaim = ""; c.OIDC, c.URL = &o, "http://a" }, "OIDC.RoleClaim"},
		"OIDC without roles":        {func(c *Config) { o := good; o.Roles = nil; c.OIDC, c.URL = &o, "http://a" }, "OIDC.Roles"},
		"OIDC with an unknown role": {func(c *Config) { o := good; o.Roles = map[Role][]string{"root": nil}; c.OIDC, c.URL = &o, "http://a" }, "OIDC.Roles"},
		"OIDC tenants of no claim": {func(c *Config) {
			o := good
			o.Tenants = map[string][]string{"a": {"b"}}
			c.OIDC, c.URL = &o, "http://a"
		}, "OIDC.TenantClaim"},
	} {
		cfg := Config{Store: r.store, Clock: r.clock}
		tt.change(&cfg)
		_, err := New(cfg)
		switch {
		case tt.key == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.key != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.key)):
			t.Errorf("%s: %v does not name %s", name, err, tt.key)
		}
	}
}
