package target_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/check"
)

// receiver is a server that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	got   []*http.Request
	body  []string
	conns int
}

// receive returns a receiver that answers with f, or 204 if it is nil.
func receive(t *testing.T, f http.HandlerFunc) *receiver {
	t.Helper()
	s := &receiver{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got, s.body = append(s.got, r), append(s.body, string(body))
		s.mu.Unlock()
		if f == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		f(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s
}

// last returns the last request and its body, and how many there were.
func (s *receiver) last(t *testing.T) (r *http.Request, body string, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = len(s.got); n == 0 {
		t.Fatal("nothing was received")
	}
	return s.got[n-1], s.body[n-1], n
}

// calling is a target that calls a server on this machine.
func calling(t *testing.T, url string, change func(*target.HTTPConfig)) *target.HTTP {
	t.Helper()
	cfg := target.HTTPConfig{URL: url, AllowHTTP: true, AllowPrivate: true}
	if change != nil {
		change(&cfg)
	}
	h, err := target.NewHTTP(cfg)
	return ok(t, h, err)
}

func TestRequest(t *testing.T) {
	t.Parallel()
	s := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thank you")
	})
	h := calling(t, s.URL+"/hooks/{slug}/{tenant}?id={id}&n={attempt}", func(c *target.HTTPConfig) {
		c.Header = http.Header{"authorization": {"Bearer t0ken"}}
	})
	r := scheduled(`{"a": 1}`)
	r.Action.Tenant, r.Action.ID = "a/b c?é", "i&d=1 é"
	out, err := h.Run(t.Context(), r)
	if err != nil || out.ExitCode != http.StatusAccepted || out.Output != "thank you" || out.Cut != 0 {
		t.Errorf("the outcome is %+v, %v", out, err)
	}
	got, body, _ := s.last(t)
	check.Equal(t, "the method", got.Method, http.MethodPost)
	check.Equal(t, "the URL", got.RequestURI, "/hooks/billing/a%2Fb%20c%3F%C3%A9?id=i%26d%3D1+%C3%A9&n=1")
	check.Equal(t, "the body", body, `{"a": 1}`)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer t0ken", "User-Agent": "abide",
		"Idempotency-Key": "a%2Fb%20c%3F%C3%A9/i&d=1%20%C3%A9",
	} {
		check.Equal(t, name, got.Header.Get(name), want)
	}

	r.Action.Attempt = 2
	if _, err := h.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	again, _, _ := s.last(t)
	check.Equal(t, "the key of the next attempt", again.Header.Get("Idempotency-Key"), got.Header.Get("Idempotency-Key"))
}

// TestBody: the body of a webhook is forwarded unchanged, and GET has no body.
func TestBody(t *testing.T) {
	t.Parallel()
	s := receive(t, nil)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, c := range map[string]struct {
		run            action.Run
		method         string
		body           string
		kind, encoding string
	}{
		"described":     {webhook(string(all), map[string]string{"content-type": "text/xml; charset=x", "Content-Encoding": "gzip", "X-Event": "push"}), "PUT", string(all), "text/xml; charset=x", "gzip"},
		"not described": {webhook("a=b", nil), "PATCH", "a=b", "application/octet-stream", ""},
		"empty":         {webhook("", map[string]string{"Content-Type": "text/plain"}), "POST", "", "", ""},
		"no payload":    {scheduled(""), "DELETE", "", "", ""},
		"no body":       {scheduled(`{}`), "GET", "", "", ""},
	} {
		if _, err := calling(t, s.URL, func(h *target.HTTPConfig) { h.Method = c.method }).Run(t.Context(), c.run); err != nil {
			t.Fatal(err)
		}
		got, body, _ := s.last(t)
		if got.Method != c.method || body != c.body || got.Header.Get("Content-Type") != c.kind || got.Header.Get("Content-Encoding") != c.encoding || got.Header.Get("X-Event") != "" {
			t.Errorf("%s: %s %q with %v", name, got.Method, body, got.Header)
		}
	}
}

// TestAnswers: 2xx is success, and no redirect is followed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for status, good := range map[int]bool{200: true, 204: true, 299: true, 302: false, 304: false, 307: false, 400: false, 404: false, 500: false, 503: false} {
		s := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			if status != 204 && status != 304 {
				_, _ = io.WriteString(w, "because")
			}
		})
		out, err := calling(t, s.URL+"/hunter2", nil).Run(t.Context(), scheduled(""))
		check.Equal(t, "the exit code", out.ExitCode, status)
		if (err == nil) != good {
			t.Errorf("%d: the error is %v", status, err)
		}
		if err != nil {
			fails(t, err, "target: POST "+s.URL+": it answered ", http.StatusText(status))
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the path is in the error: %v", err)
			}
		}
		if _, _, n := s.last(t); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

// TestSentOnce: a connection that breaks is no reason to send a request once more, because
// nobody knows what came of the first.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		n := 0
		s := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 1 {
				return // so that there is a connection that could be used again
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		})
		h := calling(t, s.URL, func(c *target.HTTPConfig) { c.Method = method })
		if _, err := h.Run(t.Context(), scheduled(`{}`)); err != nil {
			t.Fatal(err)
		}
		_, err := h.Run(t.Context(), scheduled(`{}`))
		fails(t, err, "target: "+method+" http://127.0.0.1:")
		if _, _, n := s.last(t); n != 2 {
			t.Errorf("%s: there were %d requests, want 2", method, n)
		}
	}
}

// TestLongAnswer: an answer is read up to a limit, and what is cut is counted as far as
// it is known.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length string
		cut    int64
	}{"length known": {"3145728", 2 << 20}, "length not known": {"", 1}} {
		s := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.length != "" {
				w.Header().Set("Content-Length", c.length)
			}
			_, _ = io.WriteString(w, strings.Repeat("x", 3<<20))
		})
		out, err := calling(t, s.URL, nil).Run(t.Context(), scheduled(""))
		if err != nil || len(out.Output) != target.Keep || out.Cut != c.cut {
			t.Errorf("%s: %d bytes, %d cut, %v", name, len(out.Output), out.Cut, err)
		}
	}
}

// TestBrokenAnswer: the status decides.
func TestBrokenAnswer(t *testing.T) {
	t.Parallel()
	s := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "a part")
	})
	out, err := calling(t, s.URL, nil).Run(t.Context(), scheduled(""))
	if err != nil || out.Output != "a part" || out.Cut != 94 {
		t.Errorf("the outcome is %+v, %v", out, err)
	}
}

// TestHangingServer: the end of the context ends a request, before an answer and within
// one.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	for _, begin := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := receive(t, func(w http.ResponseWriter, r *http.Request) {
			if begin {
				_, _ = io.WriteString(w, "wait")
				_ = http.NewResponseController(w).Flush()
			}
			cancel(action.ErrTimeout)
			<-r.Context().Done()
		})
		_, err := calling(t, s.URL, nil).Run(ctx, scheduled(""))
		fails(t, err, "timed out")
		check.Error(t, err, action.ErrTimeout)
	}
}

// TestPrivate: what only this machine can reach is not reached.
func TestPrivate(t *testing.T) {
	t.Parallel()
	s := receive(t, nil)
	for name, url := range map[string]string{"address": s.URL, "name": strings.Replace(s.URL, "127.0.0.1", "localhost", 1)} {
		_, err := calling(t, url, func(c *target.HTTPConfig) { c.AllowPrivate = false }).Run(t.Context(), scheduled(""))
		fails(t, err, "is not public")
		if !errors.Is(err, target.ErrPrivate) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	s.mu.Lock()
	check.Equal(t, "the number of connections", s.conns, 0)
	s.mu.Unlock()
	allowed := calling(t, s.URL, func(c *target.HTTPConfig) {
		c.AllowPrivate, c.AllowedPrefixes = false, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	if _, err := allowed.Run(t.Context(), scheduled("")); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = io.WriteString(w, user+" "+password)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := calling(t, s.URL, nil).Run(t.Context(), scheduled(""))
	fails(t, err, "certificate")
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	url := strings.Replace(s.URL, "https://", "https://user:p%40ss@", 1)
	trusting := calling(t, url, func(c *target.HTTPConfig) {
		c.AllowHTTP, c.TLS = false, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	})
	out, err := trusting.Run(t.Context(), scheduled(""))
	check.Equal(t, "who called", ok(t, out, err).Output, "user p@ss")
}

// TestDots: no placeholder leads out of the path that the configuration names.
func TestDots(t *testing.T) {
	t.Parallel()
	s := receive(t, nil)
	for url, tenant := range map[string]string{
		"/a/{tenant}/b": "..", "/a/.{tenant}": ".", "/{tenant}?x": ".", "/a/%2e{tenant}": ".",
	} {
		r := scheduled("")
		r.Action.Tenant = tenant
		_, err := calling(t, s.URL+url, nil).Run(t.Context(), r)
		refuses(t, err, "a placeholder makes a part of the path . or ..")
	}
	r := scheduled("")
	r.Action.Tenant = "..."
	if _, err := calling(t, s.URL+"/{tenant}?q={tenant}/..", nil).Run(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	_ = l.Close() // nobody listens there now
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = calling(t, "http://"+l.Addr().String(), nil).Run(ctx, scheduled(""))
	fails(t, err, "target: POST http://127.0.0.1:", "refused")
}

// TestHTTPConfig: an error names the field and what is allowed, and shows no secret: all of
// them are called hunter2 here.
func TestHTTPConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url  string
		says string
	}{
		{"", "HTTPConfig.URL is empty; it must look like https://host/path"},
		{"http://a.example/hunter2", "HTTPConfig.URL has a scheme that is not allowed; it must look like https://host/path/{slug}?id={id}; AllowHTTP allows http://"},
		{"a.example/hunter2", "HTTPConfig.URL has a scheme"},
		{"{slug}://a.example/hunter2", "HTTPConfig.URL has a brace before its path"},
		{"https://{tenant}.a.example/hunter2", "placeholders are allowed in the path and the query"},
		{"https://a.example:{attempt}", "HTTPConfig.URL has a brace before its path"},
		{"https://{slug}@a.example", "HTTPConfig.URL has a brace before its path"},
		{"https://a.example{slug}", "HTTPConfig.URL has a brace before its path"},
		{"https:///hunter2", "HTTPConfig.URL is not a URL with a host"},
		{"https://:443/hunter2", "HTTPConfig.URL is not a URL with a host"},
		{"https://a b/hunter2", "HTTPConfig.URL is not a URL with a host"},
		{"https://a.example/hunter2#{slug}", "HTTPConfig.URL has a #"},
		{"https://a.example/hunter2/{name}", "HTTPConfig.URL has a placeholder that does not exist"},
		{"https://a.example/hunter2?a={name}", "HTTPConfig.URL has a placeholder that does not exist"},
		{"https://a.example/hunter2}", "HTTPConfig.URL has a placeholder that does not exist, or a brace"},
		{"https://a.example/../hunter2", "HTTPConfig.URL is not a URL, or has . or .."},
		{"https://a.example/%zzhunter2", "HTTPConfig.URL is not a URL"},
		{"https://a.example/\nhunter2", "HTTPConfig.URL is not a URL"},
	} {
		h, err := target.NewHTTP(target.HTTPConfig{URL: c.url})
		refuses(t, err, c.says)
		if h != nil || (err != nil && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("there is a target, or a secret in the error: %v", err)
		}
	}
	good := "https://a.example"
	for _, c := range []struct {
		cfg  target.HTTPConfig
		says string
	}{
		{target.HTTPConfig{URL: good, Method: "get"}, `HTTPConfig.Method is "get"; GET, POST, PUT, PATCH, DELETE are allowed`},
		{target.HTTPConfig{URL: good, Method: "CONNECT"}, "HTTPConfig.Method"},
		{target.HTTPConfig{URL: good, Header: http.Header{"idempotency-key": {"hunter2"}}}, "HTTPConfig.Header is not allowed: it has Idempotency-Key"},
		{target.HTTPConfig{URL: "https://u:p@a.example", Header: http.Header{"Authorization": {"hunter2"}}}, "HTTPConfig.Header has Authorization, and the URL has a user"},
		{target.HTTPConfig{URL: good, AllowedPrefixes: make([]netip.Prefix, 1)}, "HTTPConfig.AllowedPrefixes[0] is not allowed"},
	} {
		_, err := target.NewHTTP(c.cfg)
		refuses(t, err, c.says)
	}
}
