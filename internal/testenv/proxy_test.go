package testenv

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// echo starts a server that sends back each line that it gets, and says when the other
// side has no more. It returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	t.Cleanup(func() { _ = l.Close() }) // nothing was written
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := io.Copy(c, c); err == nil {
					io.WriteString(c, "end\n") //nolint:errcheck // a test that waits for it says so
				}
			}()
		}
	}()
	return l.Addr().String()
}

// line is a connection on which lines are sent and come back.
type line struct {
	*net.TCPConn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *line {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	check.OK(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the relay may have done so
	return &line{TCPConn: c.(*net.TCPConn), in: bufio.NewReader(c)}
}

// hears waits for a line.
func (l *line) hears(t *testing.T, within time.Duration) (string, error) {
	t.Helper()
	check.OK(t, l.SetReadDeadline(time.Now().Add(within)))
	return l.in.ReadString('\n')
}

// echoes sends a line and waits until it comes back.
func (l *line) echoes(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(l, text+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := l.hears(t, patience); err != nil || got != text+"\n" {
		t.Fatalf("sent %q, and heard %q, %v", text, got, err)
	}
}

func TestProxyPassesOnBothWays(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	a, b := connect(t, p.Addr()), connect(t, p.Addr())
	a.echoes(t, "one")
	b.echoes(t, "two")
	a.echoes(t, strings.Repeat("long", 100_000))
	check.OK(t, a.CloseWrite())
	if got, err := a.hears(t, patience); got != "end\n" || err != nil {
		t.Errorf("after the end of one direction: %q, %v", got, err)
	}
	if _, err := a.hears(t, patience); err != io.EOF { //nolint:errorlint // it is returned as it is
		t.Errorf("after the end of both: %v", err)
	}
	b.echoes(t, "three")
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	open := connect(t, p.Addr())
	open.echoes(t, "before")
	p.Cut()
	if _, err := open.hears(t, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was cut: %v", err)
	}
	// One that comes is dropped, if it comes about at all.
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		defer c.Close()
		check.OK(t, c.SetReadDeadline(time.Now().Add(patience)))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection of while it is cut: %v", err)
		}
	}
	p.Resume()
	connect(t, p.Addr()).echoes(t, "after")
}

func TestProxyStall(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	open := connect(t, p.Addr())
	open.echoes(t, "before")
	p.Stall()
	late := connect(t, p.Addr())
	for name, l := range map[string]*line{"an open": open, "a new": late} {
		if _, err := io.WriteString(l, "during\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := l.hears(t, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection of a network that stalls: %q, %v", name, got, err)
		}
	}
	p.Resume()
	for name, l := range map[string]*line{"an open": open, "a new": late} {
		if got, err := l.hears(t, patience); got != "during\n" || err != nil {
			t.Errorf("%s connection of a network that was mended: %q, %v", name, got, err)
		}
		l.echoes(t, "after")
	}
}

// TestProxyStallsTheAnswers: what the server sends is stopped as well.
func TestProxyStallsTheAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer l.Close()
	p := Proxy(t, l.Addr().String())
	client := connect(t, p.Addr())
	server, err := l.Accept()
	check.OK(t, err)
	defer server.Close()
	p.Stall()
	if _, err := io.WriteString(server, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.hears(t, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("what the server sends arrives: %q, %v", got, err)
	}
	p.Cut() // a network that stalls can be cut as well
	if _, err := client.hears(t, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that stalled and was cut: %v", err)
	}
}
