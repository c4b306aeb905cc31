package testenv

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay is the network between a process and a server, which a test can break. See
// [Proxy].
type Relay struct {
	target string
	addr   string

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed when state changes
	conns   map[net.Conn]struct{}
	relays  sync.WaitGroup
}

// state is what the network does.
type state int

const (
	moving  state = iota
	stalled       // connections are open, and nothing gets through
	cut           // there are no connections
	closed        // the test is over
)

// Proxy starts a relay on a port of 127.0.0.1 of its own, which connects to target for
// each connection that it gets, and passes on what comes, both ways. It ends with the
// test.
func Proxy(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Relay{target: target, addr: l.Addr().String(), changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.relays.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		_ = l.Close() // nothing was written
		p.become(closed)
		p.relays.Wait()
	})
	return p
}

// Addr returns where the relay listens.
func (p *Relay) Addr() string { return p.addr }

// Cut drops all connections, as a firewall that resets them does, and refuses new ones
// until [Relay.Resume].
func (p *Relay) Cut() { p.become(cut) }

// Stall has nothing get through any more, in either direction, until [Relay.Resume]: a
// network that swallows what is sent, and tells nobody. Connections stay open, and new
// ones come about and hear nothing. What is sent meanwhile arrives afterwards.
func (p *Relay) Stall() { p.become(stalled) }

// Resume mends the network.
func (p *Relay) Resume() { p.become(moving) }

// become makes another state of the network, unless the test is over.
func (p *Relay) become(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == closed {
		return
	}
	p.state = s
	close(p.changed)
	p.changed = make(chan struct{})
	if s == cut || s == closed {
		for c := range p.conns {
			drop(c)
		}
		clear(p.conns)
	}
}

// drop ends a connection at once, as one that is lost ends.
func drop(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // what was not sent is not sent any more
	}
	_ = c.Close() // it is lost on purpose
}

// await returns when the network moves, or false if it is cut.
func (p *Relay) await() bool {
	for {
		p.mu.Lock()
		s, changed := p.state, p.changed
		p.mu.Unlock()
		switch s {
		case moving:
			return true
		case stalled:
			<-changed
		case cut, closed:
			return false
		}
	}
}

// keep notes a connection, so that it can be dropped. If the network is cut it is dropped
// now.
func (p *Relay) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == cut || p.state == closed {
		drop(c)
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// forget ends a connection that has come to its end.
func (p *Relay) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, found := p.conns[c]; found {
		delete(p.conns, c)
		_ = c.Close() // it has come to its end
	}
}

func (p *Relay) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		if p.keep(c) {
			p.relays.Go(func() { p.relay(c) })
		}
	}
}

// relay connects a connection with the target, for as long as both are there.
func (p *Relay) relay(c net.Conn) {
	defer p.forget(c)
	if !p.await() {
		return
	}
	target, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil || !p.keep(target) {
		return
	}
	defer p.forget(target)
	var both sync.WaitGroup
	both.Go(func() { p.pass(target, c) })
	both.Go(func() { p.pass(c, target) })
	both.Wait()
}

// pass moves what comes from one to the other, and says when there is no more.
func (p *Relay) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.await() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				p.forget(from) // nobody is there to read what it sends
				return
			}
		}
		if err != nil {
			p.end(to, err)
			return
		}
	}
}

// end passes on how a direction ended: orderly, and the other one goes on, or not.
func (p *Relay) end(to net.Conn, err error) {
	if t, ok := to.(*net.TCPConn); ok && err == io.EOF { //nolint:errorlint // Read returns it as it is
		_ = t.CloseWrite() // if it is gone, the other direction notices
		return
	}
	p.forget(to)
}
