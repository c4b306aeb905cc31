package webhookbus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
)

// TestHang: a receiver that does not answer is given up after the timeout, by the clock
// of the bus, and not before.
func TestHang(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	clock := base.NewManual(noon)
	b := newBus(t, r.URL, func(c *Config) { c.Clock = clock })
	outcome := make(chan error)
	go func() { outcome <- publishOne(t, b, envelope("id-1")) }()
	<-arrived
	clock.Advance(15*time.Second - 1)
	select {
	case err := <-outcome:
		t.Errorf("given up too early: %v", err)
	default:
	}
	clock.Advance(1)
	err := <-outcome
	wantError(t, err, "no answer within 15s")
	if errors.Is(err, bus.ErrPermanent) {
		t.Error("it is not worth another try")
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
		cancel(errors.New("enough"))
		<-req.Context().Done()
	})
	b := newBus(t, r.URL, func(c *Config) { c.Concurrency = 1 })
	list := []bus.Envelope{envelope("1"), envelope("2")}
	for i, err := range bus.Outcomes(b.Publish(ctx, list), 2) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the outcome of envelope %d is %v", i+1, err)
		}
	}
	if n := len(r.got()); n != 1 {
		t.Errorf("%d requests were made, want none after the end", n)
	}
}

// raw answers with bytes, and closes the connection.
func raw(t *testing.T, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(answer)) // the other side may have had enough
	}
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		says         string // empty if it is accepted
	}{
		{"closed before the answer", "", "EOF"},
		{"closed in the status", "HTTP/1.1 20", "malformed"},
		{"closed in the headers", "HTTP/1.1 200 OK\r\nContent-Le", "connection broken"},
		{"closed in the body of a 200", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", ""},
		{"closed in the body of a 500", "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nhalf", "it answered 500 Internal Server Error: half"},
		{"broken chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n", "malformed HTTP"},
		{"a flood of headers", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), "exceeded"},
		{"a flood of header lines", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: x\r\n", 1<<17), "exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, raw(t, c.answer))
			err := publishOne(t, newBus(t, r.URL, nil), envelope("id-1"))
			if c.says == "" && err != nil {
				t.Errorf("the outcome is %v", err)
			}
			if c.says != "" {
				wantError(t, err, c.says)
			}
			if n := len(r.got()); n != 1 {
				t.Errorf("%d requests were made, want 1: trying again is not up to the bus", n)
			}
		})
	}
}

// TestFlood: of an answer without an end 64 KiB are read, whatever the status.
func TestFlood(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			stopped := make(chan struct{})
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				defer close(stopped)
				w.WriteHeader(status)
				for chunk := []byte(strings.Repeat("x", 1<<16)); ; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})
			err := publishOne(t, newBus(t, r.URL, nil), envelope("id-1"))
			if (err == nil) != (status == 200) || (err != nil && len(err.Error()) > 1000) {
				t.Errorf("the outcome is %v", err)
			}
			<-stopped
		})
	}
}

// TestRedirects: none is followed, because it could lead anywhere.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{elsewhere.URL, "/again", ":", ""} {
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			wantError(t, publishOne(t, newBus(t, r.URL, nil), envelope("id-1")), fmt.Sprintf("it answered %d", status))
			if n := len(r.got()); n != 1 {
				t.Errorf("%d to %q: %d requests were made", status, location, n)
			}
		}
	}
	if n := elsewhere.connections(); n > 0 {
		t.Errorf("the target of a redirect has got %d connections", n)
	}
}

// TestComesBack: a receiver that was away, or ill, is reached again.
func TestComesBack(t *testing.T) {
	t.Parallel()
	ill := true
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if ill {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	b := newBus(t, r.URL, nil)
	wantError(t, publishOne(t, b, envelope("id-1")), "it answered 500")
	address := r.Listener.Addr().String()
	r.Close()
	if err := publishOne(t, b, envelope("id-1")); err == nil || errors.Is(err, bus.ErrPermanent) {
		t.Errorf("it is away, and the outcome is %v", err) // the connection was kept, and is broken
	}
	wantError(t, publishOne(t, b, envelope("id-1")), "refused")

	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ill = false
	back := &http.Server{Handler: r.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = back.Serve(listener) }()
	t.Cleanup(func() { _ = back.Close() })
	if err := publishOne(t, b, envelope("id-1")); err != nil {
		t.Errorf("it is back, and the outcome is %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	r := unstarted(t, nil)
	r.Config.ErrorLog = quiet
	r.StartTLS()
	known := x509.NewCertPool()
	known.AddCert(r.Certificate())
	https := func(c *Config) { c.AllowHTTP = false }
	wantError(t, publishOne(t, newBus(t, r.URL, https), envelope("id-1")), "certificate")
	if n := len(r.got()); n > 0 {
		t.Errorf("%d requests were made to an unknown server", n)
	}
	b := newBus(t, r.URL, func(c *Config) { c.AllowHTTP, c.TLS = false, &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12} })
	if err := publishOne(t, b, envelope("id-1")); err != nil {
		t.Errorf("the outcome is %v", err)
	}
	plain := newReceiver(t, nil)
	wantError(t, publishOne(t, newBus(t, strings.Replace(plain.URL, "http:", "https:", 1), https), envelope("id-1")), "does not look like a TLS handshake")
}

// TestConnections: they are kept, also as many as were needed at once, and closed by
// Close.
func TestConnections(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	var (
		mu      sync.Mutex
		waiting int
		all     = make(chan struct{})
	)
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		if waiting++; waiting > atOnce {
			t.Errorf("%d requests at a time, want %d", waiting, atOnce)
		}
		together := all
		if waiting == atOnce {
			waiting, all = 0, make(chan struct{})
			close(together)
		}
		mu.Unlock()
		<-together
	})
	b := newBus(t, r.URL, func(c *Config) { c.Concurrency = atOnce })
	var list []bus.Envelope
	for i := range atOnce {
		list = append(list, envelope(fmt.Sprint(i)))
	}
	for range 3 {
		if err := b.Publish(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.connections(); n != atOnce {
		t.Errorf("%d connections were made, want %d", n, atOnce)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for range atOnce {
		<-r.closed
	}
	if err := b.Publish(t.Context(), list); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// counter is a clock that counts the requests under way, each of which has a timeout.
type counter struct {
	base.System
	mu        sync.Mutex
	now, most int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

func (c *counter) AfterFunc(d time.Duration, f func()) func() bool {
	c.add(1)
	stop := c.System.AfterFunc(d, f)
	return func() bool {
		c.add(-1)
		return stop()
	}
}

// TestConcurrency: there are as many requests at a time as allowed, and no more.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	clock := &counter{}
	b := newBus(t, r.URL, func(c *Config) { c.Concurrency, c.Clock = 3, clock })
	var list []bus.Envelope
	for i := range 200 {
		list = append(list, envelope(fmt.Sprint(i)))
	}
	if err := b.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if n := len(r.got()); n != len(list) || clock.most != 3 {
		t.Errorf("%d requests were made, up to %d at a time, want %d and 3", n, clock.most, len(list))
	}
}

// TestPayloadIsNotKept: a receiver may answer before it has read the request, and then
// the body is still being sent when the payload is the caller's again.
func TestPayloadIsNotKept(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		b := newBus(t, "http://127.0.0.1:1", func(c *Config) { c.Mode = mode })
		e := envelope("id-1")
		e.Payload = []byte(`"payload"`)
		req, err := b.request(t.Context(), &e)
		if err != nil {
			t.Fatal(err)
		}
		copy(e.Payload, `"changed"`)
		body, err := io.ReadAll(req.Body)
		if err != nil || !strings.Contains(string(body), `"payload"`) {
			t.Errorf("mode %s sends %s, %v", mode, body, err)
		}
	}
}
