package timer_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/webhookbus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// receiver is an unreliable server.
type receiver struct {
	t    *testing.T
	sink *faultSink
	addr string

	mu     sync.Mutex
	rnd    *rand.Rand
	server *httptest.Server
}

// start has the receiver listen, where it did before.
func (r *receiver) start() {
	r.t.Helper()
	listener, err := net.Listen("tcp", r.addr)
	check.OK(r.t, err)
	r.addr = listener.Addr().String()
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}}
	r.server.Start()
}

func (r *receiver) stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// ServeHTTP accepts an event, or fails, or hangs, or accepts it and does not say so.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has given up
	}
	r.mu.Lock()
	mood := r.rnd.IntN(8)
	r.mu.Unlock()
	switch mood {
	case 0:
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	case 1:
		<-req.Context().Done()
		return
	}
	if err := r.note(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if mood == 2 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	w.WriteHeader(http.StatusNoContent)
}

// note notes the event as the envelope that it was.
func (r *receiver) note(body []byte) error {
	var event struct {
		ID          string          `json:"id"`
		Type        string          `json:"type"`
		Tenant      string          `json:"tenantid"`
		Correlation string          `json:"correlationid"`
		Time        time.Time       `json:"time"`
		Data        json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	return r.sink.note(bus.Envelope{
		ID: event.ID, Type: event.Type, TenantID: event.Tenant, CorrelationID: event.Correlation,
		TimestampMs: event.Time.UnixMilli(), Payload: event.Data,
	}, time.Now())
}

// TestWebhookThatFailsHangsAndComesBack: a receiver fails, hangs, breaks connections, and is
// away for a while, and a process is killed. The receiver gets each event in the end, with
// the same ID each time.
func TestWebhookThatFailsHangsAndComesBack(t *testing.T) {
	t.Parallel()
	w := brokerWorld(t)
	r := &receiver{t: t, sink: w.sinks[0], addr: "127.0.0.1:0", rnd: rand.New(rand.NewPCG(testenv.Seed(t), 0))}
	r.start()
	t.Cleanup(func() { r.stop() })
	to, err := webhookbus.New(webhookbus.Config{
		URL: "http://" + r.addr, AllowHTTP: true, AllowPrivate: true, Timeout: 200 * time.Millisecond,
	})
	check.OK(t, err)
	t.Cleanup(func() {
		if err := to.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &broker{bus: to, trouble: func() {
		r.stop()
		<-time.After(300 * time.Millisecond)
		r.start()
	}}
	b.run(t, w)
}
