package auth

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// pair is a browser before a server whose people log in at a provider.
type pair struct {
	*fixture
	idp   *idp
	guard *Guard
	b     *browser
}

func newPair(t *testing.T, change func(*OIDC)) *pair {
	t.Helper()
	p := &pair{fixture: newFixture(t)}
	p.idp = newIDP(t, p.clock)
	// The server must know its own address before it is there.
	var handler http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	o := OIDC{
		Name: "Example", Issuer: p.idp.url, ClientID: clientID, ClientSecret: clientSecret,
		RoleClaim: "groups", Roles: map[Role][]string{Read: {"staff"}, Operate: {"ops", "on-call"}, Admin: {"admins"}},
	}
	if change != nil {
		change(&o)
	}
	p.guard = p.fixture.guard(Config{URL: s.URL, OIDC: &o})
	mux := http.NewServeMux()
	mux.Handle("/auth/", p.guard.Login())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		who, err := p.guard.Identify(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(string(who.Kind) + "|" + who.Subject + "|" + who.Name + "|" + string(who.Role) + "|" + strings.Join(who.Tenants, ",")))
	})
	handler = mux
	p.b = (&browser{t: t, client: s.Client(), base: s.URL}).fresh()
	return p
}

// begin goes to the provider, and returns the address to come back to.
func (p *pair) begin(b *browser) string {
	p.t.Helper()
	p.clock.Advance(time.Minute) // so that nobody tries too often
	out := b.get("/auth/login?with=provider&next=/timers")
	if out.status != http.StatusSeeOther || !strings.HasPrefix(out.header.Get("Location"), p.idp.url+"/authorize?") {
		p.t.Fatalf("begin: %+v", out)
	}
	back := b.get(out.header.Get("Location"))
	if back.status != http.StatusFound {
		p.t.Fatalf("the provider: %+v", back)
	}
	return back.header.Get("Location")
}

func TestLoginElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.idp.claims = map[string]any{"groups": []string{"staff", "on-call"}, "name": "A person", "email": "person@example.com"}
	if form := p.b.get("/auth/login?next=/timers"); !strings.Contains(form.text, "Log in with Example") ||
		!strings.Contains(form.text, `href="/auth/login?next=%2Ftimers&amp;with=provider"`) {
		t.Errorf("form: %s", form.text)
	}
	back := p.begin(p.b)
	if everything := p.everything(); !strings.Contains(everything, kindLogin) {
		t.Error("nothing is kept of the login")
	}
	in := p.b.get(back)
	if in.status != http.StatusSeeOther || in.header.Get("Location") != "/timers" {
		t.Fatalf("back: %+v", in)
	}
	if who := p.b.get("/"); who.text != "session|person-1|A person|operate|" {
		t.Errorf("logged in as %+v", who)
	}
	if again := p.b.get(back); again.status != http.StatusUnauthorized {
		t.Errorf("the same way again: %+v", again)
	}
	p.clock.Advance(SessionLife)
	if who := p.b.get("/"); who.status != http.StatusUnauthorized {
		t.Errorf("after %v: %+v", SessionLife, who)
	}
}

// TestLoginElsewhereIsRefused: each is good but for one thing.
func TestLoginElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	good := map[string]any{"groups": "admins"}
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
	}
	other := newKey(t)
	for name, tt := range map[string]struct {
		broken func(map[string]any)
		sign   func([]byte) string
		back   func(address string) string
		before func()
		fresh  bool // another browser comes back
		status int
	}{
		"nothing":                  {status: http.StatusSeeOther},
		"another nonce":            {broken: set("nonce", "another"), status: http.StatusUnauthorized},
		"no nonce":                 {broken: set("nonce", nil), status: http.StatusUnauthorized},
		"another audience":         {broken: set("aud", "another"), status: http.StatusUnauthorized},
		"for two, the other asked": {broken: func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "b"}, "b" }, status: http.StatusUnauthorized},
		"for two, we asked":        {broken: func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "b"}, clientID }, status: http.StatusSeeOther},
		"another issuer":           {broken: set("iss", "https://evil.example"), status: http.StatusUnauthorized},
		"no subject":               {broken: set("sub", nil), status: http.StatusUnauthorized},
		"expired":                  {broken: func(c map[string]any) { c["exp"] = p.clock.Now().Add(-time.Second).Unix() }, status: http.StatusUnauthorized},
		"unsigned":                 {sign: func(payload []byte) string { return unsigned(`{"alg":"none"}`, payload) }, status: http.StatusUnauthorized},
		"unsigned, with our key":   {sign: func(payload []byte) string { return unsigned(`{"alg":"none","kid":"k1"}`, payload) + "eA" }, status: http.StatusUnauthorized},
		"signed with another key":  {sign: func(payload []byte) string { return p.idp.signed(other, "k1", payload) }, status: http.StatusUnauthorized},
		"no ID token":              {sign: func([]byte) string { return "" }, status: http.StatusUnauthorized},
		"another state":            {back: func(a string) string { return replaced(a, "state", newSecret()) }, status: http.StatusUnauthorized},
		"no state":                 {back: func(a string) string { return replaced(a, "state", "") }, status: http.StatusUnauthorized},
		"another code":             {back: func(a string) string { return replaced(a, "code", newSecret()) }, status: http.StatusUnauthorized},
		"the provider says no":     {back: func(a string) string { return replaced(replaced(a, "code", ""), "error", "access_denied") }, status: http.StatusUnauthorized},
		"another browser":          {fresh: true, status: http.StatusUnauthorized},
		"too late":                 {before: func() { p.clock.Advance(LoginLife) }, status: http.StatusUnauthorized},
		"no role":                  {broken: set("groups", []string{"visitors"}), status: http.StatusForbidden},
		"no claim":                 {broken: set("groups", nil), status: http.StatusForbidden},
		"an odd claim":             {broken: set("groups", 7), status: http.StatusForbidden},
	} {
		p.idp.mu.Lock()
		p.idp.claims, p.idp.broken, p.idp.sign = good, tt.broken, tt.sign
		p.idp.mu.Unlock()
		b := p.b.fresh()
		back := p.begin(b)
		if tt.back != nil {
			back = tt.back(back)
		}
		if tt.before != nil {
			tt.before()
		}
		if tt.fresh {
			b = b.fresh()
		}
		in := b.get(back)
		if in.status != tt.status {
			t.Errorf("%s: %+v", name, in)
		}
		session := slices.ContainsFunc(in.header.Values("Set-Cookie"), func(c string) bool { return strings.HasPrefix(c, cookieSession+"=") })
		if session != (tt.status == http.StatusSeeOther) {
			t.Errorf("%s: a session: %v", name, session)
		}
	}
	for _, private := range []string{clientSecret, "id_token"} {
		if strings.Contains(p.log.String(), private) {
			t.Errorf("%q is in the log", private)
		}
	}
}

// TestReplayedCode: what was intercepted of a login is of no use in another
// login.
func TestReplayedCode(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.idp.claims = map[string]any{"groups": "admins"}
	used := p.begin(p.b)
	if in := p.b.get(used); in.status != http.StatusSeeOther {
		t.Fatalf("%+v", in)
	}
	code := query(used).Get("code")
	thief := p.b.fresh()
	own := p.begin(thief)
	if in := thief.get(replaced(own, "code", code)); in.status != http.StatusUnauthorized {
		t.Errorf("a code that was used: %+v", in)
	}
	victim := p.b.fresh()
	unused := query(p.begin(victim)).Get("code")
	own = p.begin(thief)
	if in := thief.get(replaced(own, "code", unused)); in.status != http.StatusUnauthorized {
		t.Errorf("a code of another login: %+v", in)
	}
}

// TestProviderIsAway: the form still works, and the provider is found when it is back.
func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	away := p.guard.provider.cfg.Client
	p.guard.provider.cfg.Client = &http.Client{Transport: http.NewFileTransport(http.Dir(t.TempDir()))}
	if out := p.b.get("/auth/login?with=provider"); out.status != http.StatusServiceUnavailable || !strings.Contains(out.text, "Example") {
		t.Errorf("away: %+v", out)
	}
	if form := p.b.get("/auth/login"); form.status != http.StatusOK {
		t.Errorf("form: %+v", form)
	}
	p.guard.provider.cfg.Client = away
	p.begin(p.b)
}

// TestClaims: who is who.
func TestClaims(t *testing.T) {
	t.Parallel()
	roles := map[Role][]string{Read: {"staff"}, Operate: {"ops"}, Admin: {"admins", "person@example.com"}}
	for name, tt := range map[string]struct {
		o      OIDC
		claims string
		want   string // role and tenants; empty: nobody
	}{
		"a text":                            {OIDC{RoleClaim: "groups"}, `{"groups":"ops"}`, "operate all"},
		"the highest":                       {OIDC{RoleClaim: "groups"}, `{"groups":["admins","staff"]}`, "admin all"},
		"within":                            {OIDC{RoleClaim: "realm_access.roles"}, `{"realm_access":{"roles":["ops"]}}`, "operate all"},
		"a name with dots":                  {OIDC{RoleClaim: "https://example.com/roles"}, `{"https://example.com/roles":["ops"]}`, "operate all"},
		"a part of the value":               {OIDC{RoleClaim: "groups"}, `{"groups":["opsy","admin"]}`, ""},
		"an email that was verified":        {OIDC{RoleClaim: "email"}, `{"email":"person@example.com","email_verified":true}`, "admin all"},
		"an email that was not":             {OIDC{RoleClaim: "email"}, `{"email":"person@example.com","email_verified":false}`, ""},
		"an email of which is said nothing": {OIDC{RoleClaim: "email"}, `{"email":"person@example.com"}`, ""},
		"tenants by name":                   {OIDC{RoleClaim: "groups", TenantClaim: "t"}, `{"groups":"ops","t":["b","a","b"]}`, "operate a,b"},
		"no tenants":                        {OIDC{RoleClaim: "groups", TenantClaim: "t"}, `{"groups":"ops"}`, ""},
		"no tenants in the list":            {OIDC{RoleClaim: "groups", TenantClaim: "t"}, `{"groups":"ops","t":[]}`, ""},
		"a star is no tenant for all":       {OIDC{RoleClaim: "groups", TenantClaim: "t"}, `{"groups":"ops","t":"*"}`, "operate *"},
		"tenants by table":                  {OIDC{RoleClaim: "groups", TenantClaim: "groups", Tenants: map[string][]string{"ops": {"a", "b"}}}, `{"groups":["ops","staff"]}`, "operate a,b"},
		"not in the table":                  {OIDC{RoleClaim: "groups", TenantClaim: "t", Tenants: map[string][]string{"x": {"a"}}}, `{"groups":"ops","t":"a"}`, ""},
		"all by table":                      {OIDC{RoleClaim: "groups", TenantClaim: "t", Tenants: map[string][]string{"x": {"*"}}}, `{"groups":"ops","t":"x"}`, "operate all"},
	} {
		var claims map[string]any
		check.OK(t, json.Unmarshal([]byte(tt.claims), &claims))
		tt.o.Roles = roles
		who, err := tt.o.identity("p", claims)
		got := ""
		if err == nil {
			got = string(who.Role) + " all"
			if who.Tenants != nil {
				got = string(who.Role) + " " + strings.Join(who.Tenants, ",")
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func query(address string) url.Values {
	u, _ := url.Parse(address)
	return u.Query()
}

// replaced returns an address with another value in its query.
func replaced(address, name, value string) string {
	u, _ := url.Parse(address)
	q := u.Query()
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// unsigned returns a token with no signature.
func unsigned(header string, payload []byte) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString(payload) + "."
}
