package remote_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store/memstore"
)

// stage is an engine in virtual time, and a client of it: the engine itself, or one that
// talks to a server.
type stage struct {
	*testing.T
	*abide.Client
	engine *abide.Engine
	store  *memstore.Store
	net    *network
}

// both runs f twice: with an engine, and with a client of a server on one. What holds for
// the one holds for the other.
func both(t *testing.T, serve []abide.Definition, f func(s *stage)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{"engine", "remote"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			onStage(t, abide.Config{Register: serve, Unlisted: true}, kind == "remote", f)
		})
	}
}

// onStage runs f in virtual time.
func onStage(t *testing.T, cfg abide.Config, far bool, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := rig.Quiet
		cfg.Logger = log
		s := &stage{T: t, store: memstore.New(memstore.Options{})}
		defer s.store.Close()
		e, err := abide.New(s.store, cfg)
		check.OK(s.T, err)
		defer func() { check.OK(s.T, e.Close()) }()
		s.engine, s.Client = e, e.Client
		if far {
			s.net = newNetwork()
			defer s.net.close()
			s.serve()
			defer func() { s.net.stop() }()
			s.Client = s.dial()
		}
		f(s)
	})
}

// serve has a server answer on the network.
func (s *stage) serve() {
	s.Helper()
	h, err := server.New(server.Config{Store: s.store, Engine: s.engine, Logger: rig.Quiet})
	check.OK(s.T, err)
	s.net.start(h)
}

// dial returns a client on the network.
func (s *stage) dial() *abide.Client {
	h := &http.Client{Transport: &http.Transport{DialContext: s.net.dial}}
	s.Cleanup(h.CloseIdleConnections)
	return remote.NewOver("http://abide", h).Engine()
}

// month is a context that ends, so that what never comes is found out.
func (s *stage) month() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), 30*24*time.Hour)
	s.Cleanup(cancel)
	return ctx
}

// network is one that is within the test, so that waiting for it is waiting in virtual
// time. It can break.
type network struct {
	mu     sync.Mutex
	server *http.Server
	conns  chan net.Conn // to be accepted
	open   map[*pipe]bool
	dials  int
	down   bool // nobody can be reached
	done   chan struct{}
}

func newNetwork() *network {
	return &network{conns: make(chan net.Conn), open: map[*pipe]bool{}, done: make(chan struct{})}
}

// pipe is a connection.
type pipe struct {
	net.Conn
	n *network
}

func (p *pipe) Close() error {
	p.n.mu.Lock()
	delete(p.n.open, p)
	p.n.mu.Unlock()
	return p.Conn.Close()
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	down := n.down || n.server == nil
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	select {
	case n.conns <- far:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p := &pipe{Conn: near, n: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[p] = true
	return p, nil
}

// cut breaks all connections.
func (n *network) cut() {
	n.mu.Lock()
	open := n.open
	n.open = map[*pipe]bool{}
	n.mu.Unlock()
	for p := range open {
		_ = p.Conn.Close()
	}
}

func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// start has a handler answer.
func (n *network) start(h http.Handler) {
	srv := &http.Server{Handler: h}
	n.mu.Lock()
	n.server = srv
	n.mu.Unlock()
	go func() { _ = srv.Serve(&listener{n: n, done: make(chan struct{})}) }()
}

// stop has nobody answer, as when a process is killed.
func (n *network) stop() {
	n.mu.Lock()
	srv := n.server
	n.server = nil
	n.mu.Unlock()
	if srv != nil {
		_ = srv.Close()
	}
	n.cut()
}

func (n *network) close() { close(n.done) }

// listener is the network as a server sees it.
type listener struct {
	n    *network
	once sync.Once
	done chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.n.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-l.n.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "abide", Net: "pipe"} }
