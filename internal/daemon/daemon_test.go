package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// TestItServes: page, API, metrics and health, and says when it is ready and when it stops.
func TestItServes(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, "admin_addr: 127.0.0.1:0"), nil)
	if r.serving.Exposed || r.serving.Guarded || !strings.HasPrefix(r.serving.URL, "http://127.0.0.1:") {
		t.Errorf("it says that it serves %+v", r.serving)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/metrics", "/api/v1/instances", "/api/v1/timers", "/api/v1/actions", "/"} {
		if status, body := r.get(http.DefaultClient, path); status != http.StatusOK {
			t.Errorf("%s: status %d: %.200s", path, status, body)
		}
	}
	admin := &running{t: t, serving: Serving{URL: r.serving.Admin}}
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/debug/pprof/": "goroutine"} {
		if status, body := admin.get(http.DefaultClient, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("admin %s: status %d", path, status)
		}
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	check.Equal(t, "the service manager was told", r.states.String(), "READY=1 STOPPING=1 ")
}

// TestBehindAProxyWithAnotherName: a browser that says no more than where a page is from is
// believed if that is where the configuration says that browsers find the server.
func TestBehindAProxyWithAnotherName(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, "url: http://abide.lan/\n"), nil)
	for origin, want := range map[string]int{"http://abide.lan": http.StatusSeeOther, "http://evil.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.serving.URL+"timers/new", strings.NewReader("key=k&at=%2B1h"))
		check.OK(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		answer, err := http.DefaultTransport.RoundTrip(req)
		check.OK(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a form of %s: status %d, want %d", origin, answer.StatusCode, want)
		}
	}
}

// TestTheAdminPortIsForThisMachine: under another name, a page on the web may be asking.
func TestTheAdminPortIsForThisMachine(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, "admin_addr: 127.0.0.1:0"), nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.serving.Admin+"/metrics", http.NoBody)
	check.OK(t, err)
	req.Host = "evil.example.com"
	answer, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	defer answer.Body.Close()
	check.Equal(t, "status", answer.StatusCode, http.StatusForbidden)
}

// slow is a server that answers when it may.
type slow struct {
	begun, may chan struct{}
}

// TestDrain: what is under way comes to its end, then the door is shut; and nobody who waits
// for news is waited for.
func TestDrain(t *testing.T) {
	t.Parallel()
	d := &daemon{cfg: configure(t, "drain: 20s"), clock: timeless{}}
	d.draining, d.drain = context.WithCancel(context.Background())
	f := &front{}
	s := slow{make(chan struct{}, 2), make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		s.begun <- struct{}{}
		<-s.may
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("/api/v1/instances/stream", func(_ http.ResponseWriter, r *http.Request) {
		s.begun <- struct{}{}
		<-r.Context().Done()
	})
	mux.HandleFunc("/hello", func(http.ResponseWriter, *http.Request) {})
	l, err := listenTCP(t.Context(), "127.0.0.1:0", 10)
	check.OK(t, err)
	d.log = discard()
	d.fail = func(err error) { t.Error(err) }
	f.add("http", l, d.outside(mux))
	f.serve(d)
	r := &running{t: t, serving: Serving{URL: "http://" + l.Addr().String()}}

	answers, streams := make(chan string, 1), make(chan error, 1)
	go func() {
		_, body, err := r.try(&http.Client{}, "/slow")
		answers <- fmt.Sprint(body, err)
	}()
	go func() {
		_, _, err := r.try(&http.Client{}, "/api/v1/instances/stream")
		streams <- err
	}()
	<-s.begun
	<-s.begun
	f.leave()
	d.drain()
	r.get(&http.Client{}, "/hello") // others are answered still
	if err := <-streams; err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	stopped := make(chan struct{})
	go func() {
		f.stop(t.Context(), d)
		close(stopped)
	}()
	check.Eventually(t, "nobody is let in any more", func() bool {
		_, _, err := r.try(&http.Client{}, "/hello")
		return err != nil
	})
	select {
	case <-stopped:
		t.Error("it has stopped although a request is under way")
	default:
	}
	close(s.may)
	check.Equal(t, "the request that was under way got", <-answers, "done<nil>")
	<-stopped
}

// TestTheEndIsTheEnd: what does not come to its end in time is cut off.
func TestTheEndIsTheEnd(t *testing.T) {
	t.Parallel()
	d := &daemon{cfg: configure(t, ""), clock: timeless{}, log: discard(), fail: func(error) {}}
	d.draining, d.drain = context.WithCancel(context.Background())
	defer d.drain()
	f := &front{}
	begun := make(chan struct{})
	l, err := listenTCP(t.Context(), "127.0.0.1:0", 10)
	check.OK(t, err)
	f.add("http", l, d.outside(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})))
	f.serve(d)
	failed := make(chan error, 1)
	go func() {
		_, _, err := (&running{t: t, serving: Serving{URL: "http://" + l.Addr().String()}}).try(&http.Client{}, "/slow")
		failed <- err
	}()
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f.stop(over, d) // returns
	if err := <-failed; err == nil {
		t.Error("the request has come to a good end")
	}
}

// TestAPartThatFailsEndsAll: a server that looks healthy and does nothing is worse.
func TestAPartThatFailsEndsAll(t *testing.T) {
	t.Parallel()
	var st store.Store
	r := start(t, configure(t, ""), func(o *Options) { st = o.Store })
	check.OK(t, st.Close())
	if err := r.wait(); err == nil || !strings.Contains(r.logs.String(), "component failed") {
		t.Errorf("it ended with %v\n%s", err, r.logs)
	}
}

// TestAPortThatIsTaken is an error that names it.
func TestAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer taken.Close()
	cfg := configure(t, "")
	cfg.Addr = taken.Addr().String()
	o := Options{Config: cfg, Store: memory(t), Logger: discard()}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "listen at "+cfg.Addr) {
		t.Errorf("the error is %v", err)
	}
}

// TestTheSocketIsForItsOwner: who comes through it may do everything, while others must say
// who they are.
func TestTheSocketIsForItsOwner(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	path := filepath.Join(t.TempDir(), "s")
	r := start(t, configure(t, "prefix: /abide", "ABIDE_AUTH_ADMIN_TOKEN="+token), func(o *Options) {
		var err error
		if o.Socket, err = net.Listen("unix", path); err != nil {
			t.Fatal(err)
		}
	})
	if status, _ := r.get(http.DefaultClient, "/api/v1/instances"); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
	with := &http.Client{Transport: bearer(token)}
	if status, _ := r.get(with, "/api/v1/instances"); status != http.StatusOK {
		t.Errorf("with the token: status %d", status)
	}
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	// Who comes in there knows of no prefix.
	beside := &running{t: t, serving: Serving{URL: "http://abide"}}
	for path, want := range map[string]int{"/api/v1/tokens": http.StatusOK, "/api/v1/timers/default/a%2Fb": http.StatusNotFound} {
		if status, body := beside.get(through, path); status != want || strings.Contains(body, "begins with") {
			t.Errorf("through the socket: %s: status %d: %s", path, status, body)
		}
	}
	if !r.serving.Guarded {
		t.Error("it says that it is not guarded")
	}
}

// TestTimersGoToTheirSinks: those of a tenant, and those for all.
func TestTimersGoToTheirSinks(t *testing.T) {
	t.Parallel()
	cfg := configure(t, "sinks: [{name: all, kind: log}, {name: north, kind: log, tenants: [north]}]")
	of := sinksOf(cfg, nil)
	for tenant, want := range map[string]string{"north": "all north", "south": "all"} {
		if got := strings.Join(of(tenant), " "); got != want {
			t.Errorf("the events of %s go to %q, want %q", tenant, got, want)
		}
	}
	r := start(t, configure(t, ""), func(o *Options) {
		s, err := timer.New(timer.Config{Store: o.Store, SinksOf: func(string) []string { return []string{logSink} }})
		check.OK(t, err)
		if _, err := s.Schedule(t.Context(), timer.Request{Tenant: "north", Key: "a", CorrelationID: "to-be-found", Delay: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	})
	check.Eventually(t, "the event is in the log", func() bool { return strings.Contains(r.logs.String(), "to-be-found") })
}

// TestASinkThatIsAwayDoesNotKeepTheServerFromStarting.
func TestASinkThatIsAwayDoesNotKeepTheServerFromStarting(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, "sinks: [{name: broker, kind: nats, url: 'nats://127.0.0.1:1'}, {name: stream, kind: redis, addresses: ['127.0.0.1:1']}]"), nil)
	if n := strings.Count(r.logs.String(), "sink unreachable"); n != 2 {
		t.Errorf("it says so %d times:\n%s", n, r.logs)
	}
}

// TestTargetsAreMade of the configuration, and mistakes name them.
func TestTargetsAreMade(t *testing.T) {
	t.Parallel()
	r := start(t, configure(t, `
targets:
- {name: a, kind: command, command: [true, "{slug}"], env: {A: b}, inherit: [X], timeout: 1s, max_in_flight: 2}
- {name: b, kind: http, url: "https://example.com/{slug}", headers: {X-A: b}, allowed_networks: [10.0.0.0/8]}
- {name: c, kind: orchestration, orchestration: order, id: "{slug}", under: [{limit: one, concurrency: 1}, {limit: each, rate: 5, per: 1m, key: "{slug}"}], priority: -3}
- {name: d, kind: event, event: approved, instance: "order-{slug}"}
- {name: e, kind: timer, delay: 1h}
- {name: f, kind: timer, tenants: [north]}
- {name: g, kind: timer, tenants: [south], only: hooks}
hooks:
- {slug: a, target: a, verify: {kind: none}}
- {slug: b, target: c, tenant: north, verify: {kind: github, secrets: [hush-hush]}}
- {slug: c, target: command, external: true, verify: {kind: none}}
`), nil)
	for _, tt := range []struct {
		tenant, target string
		status         int
	}{
		{"default", "a", http.StatusCreated}, {"north", "a", http.StatusForbidden},
		{"default", "c", http.StatusForbidden}, {"north", "c", http.StatusCreated},
		{"default", "e", http.StatusCreated}, {"default", "f", http.StatusForbidden}, {"south", "g", http.StatusForbidden},
	} {
		body := fmt.Sprintf(`{"tenant":%q,"slug":"x","target":%q,"delay":"1h"}`, tt.tenant, tt.target)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.serving.URL+"/api/v1/actions", strings.NewReader(body))
		check.OK(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("an action of %s for target %s: status %d, want %d", tt.tenant, tt.target, resp.StatusCode, tt.status)
		}
	}
	for name, text := range map[string]string{
		"targets[0] (a)":    "targets: [{name: a, kind: command, command: [/not/there]}]",
		"targets[0] (b)":    "targets: [{name: b, kind: http, url: 'http://example.com'}]",
		"a rate of 5 in 0s": "targets: [{name: c, kind: orchestration, orchestration: order, under: [{limit: one, rate: 5}]}]",
		"sinks[0] (c)":      "sinks: [{name: c, kind: webhook, url: 'http://example.com'}]",
	} {
		err := Run(t.Context(), Options{Config: configure(t, text), Store: memory(t), Logger: discard()})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}

// TestTheGuardKnows what the configuration says about certificates and logins.
func TestTheGuardKnows(t *testing.T) {
	t.Parallel()
	pem := filepath.Join(t.TempDir(), "a.pem")
	check.OK(t, os.WriteFile(pem, nil, 0o600))
	cfg := configure(t, fmt.Sprintf(`
url: https://abide.example.com
tls: {cert: %[1]s, key: %[1]s, client_ca: %[1]s}
auth:
  proxies: [10.0.0.0/8]
  oidc: {issuer: "https://login.example.com", client_id: abide, role_claim: groups, roles: {admin: [a]}}
  certificates: [{common_name: billing, role: operate, tenants: [north]}]
`, pem))
	p := &parts{}
	check.OK(t, p.makeGuard(t.Context(), &daemon{Options: Options{Store: memory(t)}, cfg: cfg, log: discard(), clock: timeless{}}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	check.OK(t, err)
	if _, err := p.guard.Identify(req); !errors.Is(err, auth.ErrNone) {
		t.Errorf("somebody without anything is let in: %v", err)
	}
}
