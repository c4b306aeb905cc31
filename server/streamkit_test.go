package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store/memstore"
)

// sent is an event of a stream, or a comment in one.
type sent struct {
	id, name, data, comment string
}

// listener reads a stream.
type listener struct {
	body  io.ReadCloser
	lines *bufio.Reader
	last  string
}

// next returns the next event or comment, or false at the end of the stream.
func (l *listener) next() (sent, bool) {
	var ev sent
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return ev, false
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			return ev, true
		case field == "id":
			ev.id, l.last = value, value
		case field == "event":
			ev.name = value
		case field == "data":
			ev.data = value
		case field == "":
			ev.comment = value
		}
	}
}

// event returns the next event that says something.
func (l *listener) event(t *testing.T) sent {
	t.Helper()
	for {
		ev, ok := l.next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		if ev.name != "" {
			return ev
		}
	}
}

// listen opens a stream, and returns when nothing escapes it any more.
func listen(t *testing.T, h *hall, path string, headers ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	resp := h.send(ctx, "GET "+path, "", headers...)
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, resp.Header)
	}
	l := &listener{body: resp.Body, lines: bufio.NewReader(resp.Body)}
	if ev, ok := l.next(); !ok || ev.comment != "open" {
		t.Fatalf("the stream begins with %+v, %v", ev, ok)
	}
	return l
}

// bubble is a server in virtual time, on a network within the test. A connection holds
// nothing: what is sent waits until it is read.
type bubble struct {
	*testing.T
	engine *abide.Engine
	server *server.Server
	conns  chan net.Conn
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(b *bubble)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		defer st.Close()
		log := rig.Quiet
		e, err := abide.New(st, abide.Config{Register: []abide.Definition{echoFlow, waitFlow, failFlow, loopFlow}, Unlisted: true, Logger: log})
		check.OK(t, err)
		defer e.Close()
		s, err := server.New(server.Config{Store: st, Engine: e, Logger: log, Page: true})
		check.OK(t, err)
		b := &bubble{T: t, engine: e, server: s, conns: make(chan net.Conn)}
		srv := &http.Server{Handler: asWho(s), Protocols: &http.Protocols{}}
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
		srv.RegisterOnShutdown(s.Drain)
		go func() { _ = srv.Serve(&pipes{b: b, closed: make(chan struct{})}) }()
		defer srv.Close()
		f(b)
	})
}

// connect makes a connection.
func (b *bubble) connect() net.Conn {
	near, far := net.Pipe()
	b.conns <- far
	return near
}

// dial makes a connection, and sends a request for a stream on it.
func (b *bubble) dial(path string, headers ...string) net.Conn {
	b.Helper()
	near := b.connect()
	request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	for _, header := range headers {
		request += header + "\r\n"
	}
	if _, err := near.Write([]byte(request + "\r\n")); err != nil {
		b.Fatal(err)
	}
	return near
}

// stream opens a stream, and returns when nothing escapes it any more.
func (b *bubble) stream(path string, headers ...string) (*listener, net.Conn) {
	b.Helper()
	conn := b.dial(path, headers...)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.OK(b, err)
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %d", path, resp.StatusCode)
	}
	l := &listener{body: resp.Body, lines: bufio.NewReader(resp.Body)}
	if ev, ok := l.next(); !ok || ev.comment != "open" {
		b.Fatalf("the stream begins with %+v, %v", ev, ok)
	}
	return l, conn
}

// collect reads a stream until it ends.
func (b *bubble) collect(l *listener) *collected {
	c := &collected{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for ev, ok := l.next(); ok; ev, ok = l.next() {
			c.mu.Lock()
			c.list = append(c.list, ev)
			c.mu.Unlock()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = time.Now()
	}()
	return c
}

type collected struct {
	done  chan struct{}
	mu    sync.Mutex
	list  []sent
	ended time.Time
}

// get returns the events, and how many comments there were.
func (c *collected) get() (events []sent, comments int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.list {
		if ev.name != "" {
			events = append(events, ev)
		} else {
			comments++
		}
	}
	return events, comments
}

// last returns the ID to come back to.
func (c *collected) last() (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.list {
		if ev.id != "" {
			id = ev.id
		}
	}
	return id
}

func (b *bubble) start(flow, id string, opts ...abide.StartOption) {
	b.Helper()
	_, err := abide.OrchestrationNamed[abide.None, abide.None](flow).Start(b.Context(), b.engine, abide.None{}, append(opts, abide.ID(id))...)
	check.OK(b, err)
}

// pipes is the network as a server sees it.
type pipes struct {
	b      *bubble
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.b.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "abide", Net: "pipe"} }
