package webhookbus

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
)

// request is one that a receiver has got.
type request struct {
	*http.Request
	body []byte
}

// receiver is a server that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	conns    int
	closed   chan struct{} // gets one for each connection that was closed
}

// newReceiver returns a receiver that answers with handler, or 204 if it is nil.
func newReceiver(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := unstarted(t, handler)
	r.Start()
	return r
}

func unstarted(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{closed: make(chan struct{}, 1000)}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender has given up
		}
		r.mu.Lock()
		r.requests = append(r.requests, request{req, body})
		r.mu.Unlock()
		if handler == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, req)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch s {
		case http.StateNew:
			r.conns++
		case http.StateClosed:
			r.closed <- struct{}{}
		default:
		}
	}
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *receiver) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

// newBus returns a bus to a receiver on this machine.
func newBus(t *testing.T, url string, change func(*Config)) *Bus {
	t.Helper()
	cfg := Config{URL: url, AllowHTTP: true, AllowPrivate: true}
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func envelope(id string) bus.Envelope {
	return bus.Envelope{
		ID: id, Type: "DueTimeReached", TenantID: "acme", CorrelationID: "corr-1",
		TimestampMs: 1772366400007,
		Payload:     json.RawMessage(`{"serviceCallId":"call-1","dueAt":"2026-03-01T12:00:00Z"}`),
	}
}

// publishOne publishes an envelope and returns its outcome.
func publishOne(t *testing.T, b *Bus, e bus.Envelope) error {
	t.Helper()
	return bus.Outcomes(b.Publish(t.Context(), []bus.Envelope{e}), 1)[0]
}

func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, want one that says %q", err, says)
	}
}
