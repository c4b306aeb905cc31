package natsbus_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// server is a NATS server with JetStream that a test can stop, start and hang.
type server struct {
	t       *testing.T
	options natsserver.Options
	running *natsserver.Server
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, options: natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}}
	s.start()
	addr, ok := s.running.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the server listens on %v", s.running.Addr())
	}
	s.options.Port = addr.Port
	t.Cleanup(s.stop)
	return s
}

// start starts the server, with the data and at the address that it had before.
func (s *server) start() {
	s.t.Helper()
	options := s.options
	running, err := natsserver.NewServer(&options)
	check.OK(s.t, err)
	go running.Start()
	if !running.ReadyForConnections(patience) {
		s.t.Fatal("the NATS server does not start")
	}
	s.running = running
}

func (s *server) stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

func (s *server) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.options.Port) }

func (s *server) url() string { return "nats://" + s.addr() }

// connect returns a connection of the test's own.
func (s *server) connect() *nats.Conn {
	s.t.Helper()
	conn, err := nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	check.OK(s.t, err)
	s.t.Cleanup(conn.Close)
	return conn
}

func (s *server) jetstream() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	check.OK(s.t, err)
	return js
}

// received reads back all that is in a stream, and checks what is written outside of
// the envelopes.
func (s *server) received(stream string) []bus.Envelope {
	s.t.Helper()
	from, err := s.jetstream().Stream(s.t.Context(), stream)
	check.OK(s.t, err)
	var list []bus.Envelope
	for sequence := range from.CachedInfo().State.LastSeq {
		msg, err := from.GetMsg(s.t.Context(), sequence+1)
		check.OK(s.t, err)
		e, err := bus.Decode(msg.Data)
		check.OK(s.t, err)
		check.Equal(s.t, "envelope has the message ID", msg.Header.Get("Nats-Msg-Id"), e.ID)
		list = append(list, e)
	}
	return list
}

// left returns how many messages a stream has.
func (s *server) left(js jetstream.JetStream, stream string) uint64 {
	s.t.Helper()
	from, err := js.Stream(s.t.Context(), stream)
	check.OK(s.t, err)
	return from.CachedInfo().State.Msgs
}

// proxy stands between a client and the server, and can stop to take anything.
type proxy struct {
	target string
	listen net.Listener

	// gate is held for reading by who forwards something, and for writing to hang.
	gate sync.RWMutex
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	t.Cleanup(func() { _ = listen.Close() })
	p := &proxy{target: target, listen: listen}
	go func() {
		for {
			client, err := listen.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) url() string { return "nats://" + p.listen.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	forward := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			p.gate.RLock()
			_, writeErr := to.Write(buffer[:n])
			p.gate.RUnlock()
			if err != nil || writeErr != nil {
				return
			}
		}
	}
	both.Go(func() { forward(server, client) })
	both.Go(func() { forward(client, server) })
	both.Wait()
}

func (p *proxy) hang() (resume func()) {
	p.gate.Lock()
	return p.gate.Unlock
}

// receive returns what comes from a channel, or gives up at last.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("in vain: %s", what)
		panic("unreachable")
	}
}

var errBusy = errors.New("busy")

// envelope returns the n-th of many.
func envelope(n int) bus.Envelope {
	return bus.Envelope{
		ID: fmt.Sprintf("01938a5e-7c00-7000-8000-%012x", n), Type: "ScheduleTimer", TenantID: "acme",
		TimestampMs: 1_731_660_000_000, Payload: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func envelopes(first, count int) []bus.Envelope {
	list := make([]bus.Envelope, count)
	for i := range list {
		list[i] = envelope(first + i)
	}
	return list
}
