package auth

import (
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// browser is a client that keeps cookies, and follows no redirects.
type browser struct {
	t      *testing.T
	client *http.Client
	base   string
}

// browse serves the login of a guard, and who is who at /.
func browse(t *testing.T, g *Guard, secure bool) *browser {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/auth/", g.Login())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		who, err := g.Identify(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(string(who.Kind) + "|" + who.Subject + "|" + who.Name + "|" + string(who.Role) + "|" + strings.Join(who.Tenants, ",")))
	})
	s := httptest.NewUnstartedServer(http.StripPrefix(g.cfg.Prefix, mux))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return (&browser{t: t, client: s.Client(), base: s.URL + g.cfg.Prefix}).fresh()
}

// fresh returns a browser without cookies.
func (b *browser) fresh() *browser {
	jar, err := cookiejar.New(nil)
	check.OK(b.t, err)
	client := &http.Client{Transport: b.client.Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &browser{t: b.t, client: client, base: b.base}
}

// page is an answer.
type page struct {
	status int
	header http.Header
	text   string
}

func (b *browser) do(method, path string, form url.Values, headers ...string) page {
	b.t.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = b.base + path
	}
	req := request(method, target, headers...)
	req.RequestURI = ""
	if form != nil {
		body := httptest.NewRequestWithContext(b.t.Context(), method, "/", strings.NewReader(form.Encode()))
		req.Body, req.ContentLength = body.Body, body.ContentLength
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.client.Do(req)
	check.OK(b.t, err)
	return page{resp.StatusCode, resp.Header, body(b.t, resp)}
}

func (b *browser) get(path string, headers ...string) page {
	return b.do(http.MethodGet, path, nil, headers...)
}

// login posts the form.
func (b *browser) login(token, next string, headers ...string) page {
	b.t.Helper()
	return b.do(http.MethodPost, "/auth/login", url.Values{"token": {token}, "next": {next}}, headers...)
}

func TestLoginWithAToken(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{AdminToken: adminToken})
	made, secret := r.token(g, NewToken{Name: "a person's", Role: Operate, Tenants: []string{"a"}})
	b := browse(t, g, false)

	form := b.get("/auth/login?next=/instances%3Fq%3D1")
	if form.status != http.StatusOK || !strings.Contains(form.text, `value="/instances?q=1"`) || strings.Contains(form.text, "Log in with") {
		t.Errorf("form: %+v", form)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff",
		"Cache-Control":           "no-store",
		"Referrer-Policy":         "same-origin",
		"Content-Type":            "text/html; charset=utf-8",
	} {
		if got := form.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, inline := range []string{"<script", "style=", "<style", "onclick"} {
		if strings.Contains(form.text, inline) {
			t.Errorf("the policy forbids %s", inline)
		}
	}
	if p := b.get("/"); p.status != http.StatusUnauthorized {
		t.Errorf("before the login: %+v", p)
	}
	for _, wrong := range []string{"", "x", secret[:50], writeToken(newID(), newSecret()), strings.Repeat("a", 5000)} {
		p := b.login(wrong, "/")
		if p.status != http.StatusUnauthorized || len(p.header.Values("Set-Cookie")) > 0 || !strings.Contains(p.text, `role="alert"`) {
			t.Errorf("%.20q: %+v", wrong, p)
		}
		if wrong != "" && len(wrong) > 10 && strings.Contains(p.text, wrong) {
			t.Error("the token is shown")
		}
	}
	in := b.login(" "+secret+"\n", "/instances?q=1")
	if in.status != http.StatusSeeOther || in.header.Get("Location") != "/instances?q=1" {
		t.Fatalf("login: %+v", in)
	}
	cookies := in.header.Values("Set-Cookie")
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0], "abide_session=") || !strings.HasSuffix(cookies[0], "; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax") {
		t.Errorf("cookies %q", cookies)
	}
	if p := b.get("/"); p.text != "session|"+made.ID+"|a person's|operate|a" {
		t.Errorf("after the login: %+v", p)
	}
	value, _, _ := strings.Cut(strings.TrimPrefix(cookies[0], "abide_session="), ";")
	if strings.Contains(r.everything(), value) || strings.Contains(r.log.String(), value) || strings.Contains(r.log.String(), secret[25:60]) {
		t.Error("a secret is in the store or in the log")
	}
	if out := b.do(http.MethodPost, "/auth/logout", nil); out.status != http.StatusSeeOther || out.header.Get("Location") != "/auth/login" ||
		!strings.HasPrefix(out.header.Get("Set-Cookie"), "abide_session=; Path=/; Max-Age=0") {
		t.Errorf("logout: %+v", out)
	}
	if p := b.get("/", "Cookie: abide_session="+value); p.status != http.StatusUnauthorized {
		t.Errorf("after the logout: %+v", p)
	}
	log, err := g.Audit(r.as(Admin), AuditQuery{})
	check.OK(t, err)
	var said []string
	for _, e := range log.Entries {
		said = append(said, e.Operation+" "+e.Subject+" "+http.StatusText(e.Status))
		check.Equal(t, "from", e.Remote, "127.0.0.1")
	}
	want := []string{"logout " + made.ID + " See Other", "login " + made.ID + " See Other"}
	for range 5 {
		want = append(want, "login  Unauthorized")
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("noted %q", said)
	}
}

// TestCookiesOverTLS: nobody can set or read them from elsewhere.
func TestCookiesOverTLS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		secure     bool
		cfg        Config
		start, end string
	}{
		{"TLS", true, Config{}, "__Host-abide_session=", "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax"},
		{"TLS and a prefix", true, Config{Prefix: "/abide"}, "__Secure-abide_session=", "; Path=/abide; Max-Age=43200; HttpOnly; Secure; SameSite=Lax"},
		{"TLS ends at a proxy", false, Config{URL: "https://abide.example.com"}, "__Host-abide_session=", "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax"},
		{"a prefix alone", false, Config{Prefix: "/abide"}, "abide_session=", "; Path=/abide; Max-Age=43200; HttpOnly; SameSite=Lax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			g := r.guard(tt.cfg)
			_, secret := r.token(g, NewToken{})
			b := browse(t, g, tt.secure)
			in := b.login(secret, "")
			cookies := in.header.Values("Set-Cookie")
			if len(cookies) != 1 || !strings.HasPrefix(cookies[0], tt.start) || !strings.HasSuffix(cookies[0], tt.end) {
				t.Errorf("cookies %q", cookies)
			}
			check.Equal(t, "redirects to", in.header.Get("Location"), tt.cfg.Prefix+"/")
			value, _, _ := strings.Cut(cookies[0], ";")
			if p := b.fresh().get("/", "Cookie: "+value); p.status != http.StatusOK {
				t.Errorf("with the cookie: %+v", p)
			}
			if form := b.get("/auth/login"); !strings.Contains(form.text, `href="`+tt.cfg.Prefix+`/static/app.css"`) || !strings.Contains(form.text, `action="`+tt.cfg.Prefix+`/auth/login"`) {
				t.Errorf("form %s", form.text)
			}
		})
	}
}

func TestNextIsALocalPath(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g, prefixed := r.guard(Config{}), r.guard(Config{Prefix: "/abide"})
	for next, want := range map[string]string{
		"":                              "/",
		"/":                             "/",
		"/instances?q=a%20b#x":          "/instances?q=a%20b#x",
		"//evil.example":                "/",
		"///evil.example":               "/",
		"/\\evil.example":               "/",
		"\\\\evil.example":              "/",
		"/\t/evil.example":              "/",
		"/\n/evil.example":              "/",
		"\t//evil.example":              "/",
		"https://evil.example/":         "/",
		"http:evil.example":             "/",
		"javascript:alert(1)":           "/",
		"evil.example":                  "/",
		"/a b":                          "/",
		"/\x7f":                         "/",
		"/auth/logout":                  "/",
		"/%zz":                          "/",
		"/" + strings.Repeat("a", 3000): "/",
		"//user@evil.example/x":         "/",
	} {
		if got := g.localPath(next); got != want {
			t.Errorf("%q: %q", next, got)
		}
	}
	for next, want := range map[string]string{
		"/abide/timers": "/abide/timers", "/other": "/abide/", "/abidefoo": "/abide/", "//abide/": "/abide/", "/abide/auth/login": "/abide/",
	} {
		if got := prefixed.localPath(next); got != want {
			t.Errorf("with a prefix, %q: %q", next, got)
		}
	}
	// A redirect is cleaned on its way: also then it stays here.
	_, secret := r.token(g, NewToken{})
	b := browse(t, g, false)
	for _, next := range []string{"/..//evil.example", "/.//evil.example", "/a/../..//evil.example"} {
		to, err := url.Parse(b.login(secret, next).header.Get("Location"))
		if err != nil || to.Host != "" || strings.HasPrefix(to.String(), "//") {
			t.Errorf("%q leads to %v", next, to)
		}
	}
}

// TestSessionsEnd: after their time whatever is done, and with the token.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	here, there := r.guard(Config{AdminToken: adminToken}), r.guard(Config{AdminToken: adminToken})
	made, secret := r.token(here, NewToken{})
	brief, expiring := r.token(here, NewToken{Expires: noon.Add(time.Hour)})
	b := browse(t, here, false)
	open := func(token string) *http.Request {
		in := b.fresh().login(token, "")
		cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
		if in.status != http.StatusSeeOther {
			t.Fatalf("login: %+v", in)
		}
		return request(http.MethodGet, "/", "Cookie: "+cookie)
	}
	first, second, third, fourth := open(secret), open(secret), open(expiring), open(adminToken)
	for _, g := range []*Guard{here, there} {
		for _, s := range []*http.Request{first, second, third, fourth} {
			if _, err := g.Identify(s); err != nil {
				t.Error(err)
			}
		}
	}
	if who, err := here.Identify(fourth); err != nil || who.Role != Admin || who.Kind != BySession || who.Tenants != nil {
		t.Errorf("the admin: %+v, %v", who, err)
	}
	if _, err := r.guard(Config{AdminToken: "another-admin-token"}).Identify(fourth); !errors.Is(err, ErrUnknown) {
		t.Errorf("the admin token was changed: %v", err)
	}
	if _, err := r.guard(Config{}).Identify(fourth); !errors.Is(err, ErrUnknown) {
		t.Errorf("the admin token was taken away: %v", err)
	}
	r.clock.Advance(time.Hour)
	if _, err := here.Identify(third); !errors.Is(err, ErrUnknown) {
		t.Errorf("the token %s has expired: %v", brief.ID, err)
	}
	r.clock.Advance(SessionLife - time.Hour - time.Millisecond)
	if _, err := here.Identify(first); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	r.clock.Advance(time.Millisecond)
	if _, err := here.Identify(first); !errors.Is(err, ErrUnknown) {
		t.Errorf("after %v: %v", SessionLife, err)
	}
	third = open(secret)
	for _, g := range []*Guard{here, there} {
		if _, err := g.Identify(third); err != nil {
			t.Error(err)
		}
	}
	check.OK(t, here.RevokeToken(r.as(Admin), made.ID))
	if _, err := here.Identify(third); !errors.Is(err, ErrUnknown) {
		t.Errorf("the token was revoked here: %v", err)
	}
	r.clock.Advance(CacheLife)
	if _, err := there.Identify(third); !errors.Is(err, ErrUnknown) {
		t.Errorf("the token was revoked elsewhere: %v", err)
	}
}

func TestLoginsAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	_, secret := r.token(g, NewToken{})
	h := g.Login()
	post := func(from, token string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/auth/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	for i := range LoginBurst {
		if w := post("192.0.2.1:1", "wrong"); w.Code != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", i, w.Code)
		}
	}
	w := post("192.0.2.1:2", secret)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "3" || len(w.Header().Values("Set-Cookie")) > 0 {
		t.Errorf("one more: %d, %v", w.Code, w.Header())
	}
	if w := post("192.0.2.2:1", secret); w.Code != http.StatusSeeOther {
		t.Errorf("from another address: %d", w.Code)
	}
	r.clock.Advance(LoginEvery)
	if w := post("192.0.2.1:3", secret); w.Code != http.StatusSeeOther {
		t.Errorf("after %v: %d", LoginEvery, w.Code)
	}
	// A network of IPv6 is one address.
	for i := range LoginBurst {
		post("[2001:db8::"+string(rune('a'+i%6))+"]:1", "wrong")
	}
	if w := post("[2001:db8::ffff]:1", secret); w.Code != http.StatusTooManyRequests {
		t.Errorf("from the same network: %d", w.Code)
	}
	if w := post("[2001:db8:0:1::1]:1", secret); w.Code != http.StatusSeeOther {
		t.Errorf("from the network beside it: %d", w.Code)
	}
}

func TestLoginIsNotForOthersPages(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	_, secret := r.token(g, NewToken{})
	b := browse(t, g, false)
	cross := "Sec-Fetch-Site: cross-site"
	if p := b.login(secret, "/", cross); p.status != http.StatusForbidden {
		t.Errorf("login from another page: %+v", p)
	}
	if p := b.login(secret, "/", "Origin: https://evil.example"); p.status != http.StatusForbidden {
		t.Errorf("login from another page, by its origin: %+v", p)
	}
	if p := b.login(secret, "/", "Origin: "+b.base); p.status != http.StatusSeeOther {
		t.Errorf("login from our page: %+v", p)
	}
	if p := b.do(http.MethodPost, "/auth/logout", nil, cross); p.status != http.StatusForbidden {
		t.Errorf("logout from another page: %+v", p)
	}
	if p := b.get("/auth/logout"); p.status != http.StatusMethodNotAllowed {
		t.Errorf("logout by a link: %+v", p)
	}
	if p := b.get("/"); p.status != http.StatusOK {
		t.Errorf("still logged in: %+v", p)
	}
	if p := b.get("/auth/callback?code=x&state=y"); p.status != http.StatusNotFound {
		t.Errorf("callback without a provider: %+v", p)
	}
	if p := b.do(http.MethodPost, "/auth/login", url.Values{"token": {strings.Repeat("a", maxForm)}}); p.status != http.StatusBadRequest {
		t.Errorf("a very long form: %d", p.status)
	}
	evil := b.get("/auth/login?next=" + url.QueryEscape(`/"><script>alert(1)</script>`))
	if strings.Contains(evil.text, "<script") {
		t.Errorf("not escaped: %s", evil.text)
	}
}
