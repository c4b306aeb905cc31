package webhookbus

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/bustest"
	"github.com/abidehq/abide/internal/check"
)

// TestSuite runs the suite of all adapters. One request at a time keeps the order that
// the suite asks for.
func TestSuite(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			bustest.Run(t, func(t *testing.T) bustest.Sink {
				s := &sink{t: t, awake: make(chan struct{})}
				close(s.awake)
				s.start()
				t.Cleanup(s.stop)
				b := newBus(t, "http://"+s.address, func(c *Config) {
					c.Mode, c.Concurrency, c.Secrets = mode, 1, []string{secret("a")}
				})
				return bustest.Sink{Bus: b, Received: s.list, Stop: s.stop, Start: s.start, Hang: s.hang}
			})
		})
	}
}

// sink is a receiver that can go away, come back and hang.
type sink struct {
	t       *testing.T
	address string
	server  *http.Server

	mu       sync.Mutex
	received []bus.Envelope
	awake    chan struct{} // closed unless it hangs
}

func (s *sink) start() {
	address := s.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	check.OK(s.t, err)
	s.address = listener.Addr().String()
	s.server = &http.Server{Handler: s, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server)
}

func (s *sink) stop() { _ = s.server.Close() }

func (s *sink) hang() (resume func()) {
	awake := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awake = awake
	return func() { close(awake) }
}

func (s *sink) list() []bus.Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has given up
	}
	e, err := parse(req.Header, body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	s.received = append(s.received, e)
	awake := s.awake
	s.mu.Unlock()
	select {
	case <-awake:
	case <-req.Context().Done():
	}
}

// parse makes an envelope of a request again, in either mode.
func parse(header http.Header, body []byte) (bus.Envelope, error) {
	var v struct {
		ID, Type, TenantID, CorrelationID, Time string
		Data                                    json.RawMessage
	}
	if header.Get("Content-Type") == "application/cloudevents+json" {
		if err := json.Unmarshal(body, &v); err != nil {
			return bus.Envelope{}, err
		}
	} else {
		for name, field := range map[string]*string{
			"Ce-Id": &v.ID, "Ce-Type": &v.Type, "Ce-Tenantid": &v.TenantID, "Ce-Correlationid": &v.CorrelationID, "Ce-Time": &v.Time,
		} {
			value, err := url.PathUnescape(header.Get(name))
			if err != nil {
				return bus.Envelope{}, err
			}
			*field = value
		}
		v.Data = body
	}
	at, err := time.Parse(time.RFC3339, v.Time)
	return bus.Envelope{
		ID: v.ID, Type: v.Type, TenantID: v.TenantID, CorrelationID: v.CorrelationID,
		TimestampMs: at.UnixMilli(), Payload: v.Data,
	}, err
}
