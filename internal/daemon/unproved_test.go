package daemon

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store/memstore"
)

// TestWithoutProofNobodyIsAdmin: any user of the machine reaches a server on loopback. What
// outlasts that is for the socket, and for admin credentials.
func TestWithoutProofNobodyIsAdmin(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	r := start(t, configure(t, ""), func(o *Options) {
		var err error
		if o.Socket, err = net.Listen("unix", path); err != nil {
			t.Fatal(err)
		}
	})
	if status, body := r.get(http.DefaultClient, "/api/v1/whoami"); status != http.StatusOK || !strings.Contains(body, `"role":"operate"`) {
		t.Errorf("without proof: status %d: %s", status, body)
	}
	for _, path := range []string{"/api/v1/tokens", "/api/v1/sessions", "/api/v1/audit"} {
		if status, _ := r.get(http.DefaultClient, path); status != http.StatusForbidden {
			t.Errorf("without proof: %s: status %d", path, status)
		}
	}
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	beside := &running{t: t, serving: Serving{URL: "http://abide"}}
	if status, body := beside.get(through, "/api/v1/audit"); status != http.StatusOK {
		t.Errorf("through the socket: status %d: %s", status, body)
	}
}

// TestFirstGuardedStartListsTokensMadeWithoutProof, once.
func TestFirstGuardedStartListsTokensMadeWithoutProof(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	guard, err := auth.New(auth.Config{Store: st, Logger: discard()})
	check.OK(t, err)
	ids := map[string]string{}
	for subject, name := range map[string]string{"local": "back door", "local:operator": "from the store", "admin": "by the admin"} {
		who := auth.With(t.Context(), auth.Identity{Kind: auth.Local, Subject: subject, Name: subject, Role: auth.Admin})
		made, _, err := guard.CreateToken(who, auth.NewToken{Name: name, Role: auth.Admin})
		check.OK(t, err)
		ids[subject] = made.ID
	}
	for i, want := range []int{0, 1, 0} {
		text := ""
		if i > 0 {
			text = "auth: {admin_token: 0123456789abcdef0123}"
		}
		logs := func() string {
			r := start(t, configure(t, text), func(o *Options) { o.Store = keepOpen{st} })
			r.stop()
			check.OK(t, r.wait())
			return r.logs.String()
		}()
		if n := strings.Count(logs, "token created while authentication was off"); n != want {
			t.Errorf("start %d: %d lines, want %d:\n%s", i, n, want, logs)
		}
		if want == 1 && !strings.Contains(logs, ids["local"]) {
			t.Errorf("start %d does not name %s:\n%s", i, ids["local"], logs)
		}
	}
	_ = st.Close()
}

// keepOpen is a store that outlives the daemon.
type keepOpen struct{ *memstore.Store }

func (keepOpen) Close() error { return nil }

// TestProfilesTakeTheRoleAdmin where callers have to prove who they are, and no web page gets
// them.
func TestProfilesTakeTheRoleAdmin(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	r := start(t, configure(t, "admin_addr: 127.0.0.1:0\nauth: {admin_token: "+token+"}"), nil)
	admin := &running{t: t, serving: Serving{URL: r.serving.Admin}}
	if status, _ := admin.get(http.DefaultClient, "/debug/pprof/cmdline"); status != http.StatusUnauthorized {
		t.Errorf("without proof: status %d", status)
	}
	if status, _ := admin.get(&http.Client{Transport: bearer(token)}, "/debug/pprof/cmdline"); status != http.StatusOK {
		t.Errorf("with the admin token: status %d", status)
	}
	if status, _ := admin.get(http.DefaultClient, "/metrics"); status != http.StatusOK {
		t.Errorf("metrics: status %d", status)
	}
	page := &http.Client{Transport: site{}}
	for _, path := range []string{"/debug/pprof/cmdline", "/metrics"} {
		if status, _ := admin.get(page, path); status != http.StatusForbidden {
			t.Errorf("%s by a web page: status %d", path, status)
		}
	}
}

// site makes requests as a browser does for a page of another site.
type site struct{}

func (site) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	return http.DefaultTransport.RoundTrip(r)
}
