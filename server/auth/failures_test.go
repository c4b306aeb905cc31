package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/ratelimit"
)

// TestFailedProofsAreLimited by address, whatever the way in, and cost no read of the store
// once there are too many.
func TestFailedProofsAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	reads := &counting{Store: r.store}
	g := r.guard(Config{Store: reads, AdminToken: adminToken})
	_, good := r.token(g, NewToken{})
	for range 2 { // the first use is noted, which changes the record; after the second this process knows it
		if _, err := g.Identify(with(good)); err != nil {
			t.Fatal(err)
		}
	}
	unknown := func() string { return writeToken(newID(), newSecret()) }
	cookie := func() *http.Request { return request(http.MethodGet, "/", "Cookie: abide_session="+newSecret()) }
	attempts := map[string]func() *http.Request{
		"token":    func() *http.Request { return with(unknown()) },
		"guess":    func() *http.Request { return with("correct-horse-battery") },
		"session":  cookie,
		"password": func() *http.Request { return request(http.MethodGet, "/", "Authorization: Basic YTpi") },
	}
	last := byte(0)
	for name, attempt := range attempts {
		last++
		from := func(req *http.Request, last byte) *http.Request {
			req.RemoteAddr = "192.0.2." + string('0'+last) + ":4000"
			return req
		}
		for i := range ratelimit.MaxFailures {
			if _, err := g.Identify(from(attempt(), last)); !errors.Is(err, ErrUnknown) {
				t.Fatalf("%s: attempt %d: %v", name, i, err)
			}
		}
		if _, err := g.Identify(from(with(good), last)); err != nil {
			t.Errorf("%s: a good token from the same address: %v", name, err)
		}
		before := reads.gets.Load()
		var wait time.Duration
		for range 50 {
			_, err := g.Identify(from(attempt(), last))
			limit, ok := errors.AsType[*RateError](err)
			if !ok || !limit.Failures || limit.After <= 0 {
				t.Fatalf("%s: one more than %d: %v", name, ratelimit.MaxFailures, err)
			}
			wait = limit.After
		}
		if _, err := g.Identify(from(with(adminToken), last)); err == nil {
			t.Errorf("%s: a token that can be guessed is still looked at", name)
		}
		if n := reads.gets.Load() - before; n != 0 {
			t.Errorf("%s: %d reads of the store beyond the limit", name, n)
		}
		// A token that this process has accepted is not locked out by others at its address.
		if _, err := g.Identify(from(with(good), last)); err != nil {
			t.Errorf("%s: a good token beyond the limit: %v", name, err)
		}
		if _, err := g.Identify(from(with(adminToken), last+4)); err != nil {
			t.Errorf("%s: another address: %v", name, err)
		}
		r.clock.Advance(wait)
		if _, err := g.Identify(from(attempt(), last)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: after the wait: %v", name, err)
		}
	}
	r.clock.Advance(time.Second)
	log := r.log.String()
	if lines := strings.Count(log, `msg="authentication failed"`); lines == 0 || lines > 2*len(attempts)+1 {
		t.Errorf("%d lines in the log:\n%s", lines, log)
	}
	if strings.Contains(log, "correct-horse") {
		t.Error("what was sent is in the log")
	}
}

// TestRequestsWithoutProofAreNotFailures: nobody is locked out for having no credentials.
func TestRequestsWithoutProofAreNotFailures(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{AdminToken: adminToken})
	for range 5 * ratelimit.MaxFailures {
		if _, err := g.Identify(request(http.MethodGet, "/")); !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
	}
	if _, err := g.Identify(with(adminToken)); err != nil {
		t.Error(err)
	}
}

// TestStaleSessionFallsBack: beyond the limit, a session that is not known is not looked up
// where the request may be made without one.
func TestStaleSessionFallsBack(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	reads := &counting{Store: r.store}
	g := r.guard(Config{Store: reads, Anonymous: &Identity{Kind: Local, Subject: "local", Role: Read}})
	for range 3 * ratelimit.MaxFailures {
		i, err := g.Identify(request(http.MethodGet, "/", "Cookie: abide_session="+newSecret()))
		if err != nil || i.Subject != "local" {
			t.Fatal(i, err)
		}
	}
	check.Equal(t, "reads of the store", reads.gets.Load(), ratelimit.MaxFailures)
}

// TestFailedLoginsCount as failed proofs, and an address that has failed elsewhere does not
// get to the form.
func TestFailedLoginsCount(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{AdminToken: adminToken})
	login := func() int {
		form := strings.NewReader(url.Values{"token": {"not-the-token"}}.Encode())
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/auth/login", form)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		g.Login().ServeHTTP(w, req)
		return w.Code
	}
	if status := login(); status != http.StatusUnauthorized {
		t.Fatalf("status %d", status)
	}
	failed := 0
	for {
		req := with("guess-guess")
		req.RemoteAddr = "192.0.2.1:1234" // as httptest has it
		_, err := g.Identify(req)
		if _, tooMany := errors.AsType[*RateError](err); tooMany {
			break
		}
		failed++
	}
	check.Equal(t, "failures after one at the form", failed, ratelimit.MaxFailures-1)
	check.Equal(t, "the form beyond the limit: status", login(), http.StatusTooManyRequests)
}

// TestSessionsEndWithTheMapping: who has logged in at the provider has to do so again when its
// claims mean something else, or when it is gone.
func TestSessionsEndWithTheMapping(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := func(change func(*OIDC)) Config {
		o := OIDC{
			Issuer: "https://login.example.com", ClientID: "abide", RoleClaim: "groups", Roles: map[Role][]string{Operate: {"on-call", "ops"}},
			TenantClaim: "groups", Tenants: map[string][]string{"ops": {"a", "b"}, "on-call": {"a"}},
		}
		change(&o)
		return Config{URL: "http://abide.example.com", OIDC: &o}
	}
	cookie, err := r.guard(login(func(*OIDC) {})).startSession(t.Context(), session{kind: BySession, subject: "p1", name: "a person", role: Operate})
	check.OK(t, err)
	req := func() *http.Request {
		return request(http.MethodGet, "http://abide.example.com/", "Cookie: abide_session="+cookie)
	}
	for name, tt := range map[string]struct {
		cfg Config
		err error
	}{
		"the same":        {login(func(*OIDC) {}), nil},
		"another order":   {login(func(o *OIDC) { o.Roles[Operate] = []string{"ops", "on-call"} }), nil},
		"another name":    {login(func(o *OIDC) { o.Name = "Example" }), nil},
		"another role":    {login(func(o *OIDC) { o.Roles = map[Role][]string{Read: {"on-call", "ops"}} }), ErrUnknown},
		"a group is gone": {login(func(o *OIDC) { o.Roles[Operate] = []string{"ops"} }), ErrUnknown},
		"another tenant":  {login(func(o *OIDC) { o.Tenants["ops"] = []string{"a"} }), ErrUnknown},
		"another issuer":  {login(func(o *OIDC) { o.Issuer = "https://other.example.com" }), ErrUnknown},
		"no provider":     {Config{URL: "http://abide.example.com"}, ErrUnknown},
	} {
		if _, err := r.guard(tt.cfg).Identify(req()); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
	}
}
