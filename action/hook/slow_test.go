package hook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/check"
)

// dial opens a connection to the server of a kit, and sends what is given.
func (k *fixture) dial(format string, args ...any) net.Conn {
	k.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(k.t.Context(), "tcp", k.server.Listener.Addr().String())
	check.OK(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, format, args...); err != nil {
		k.t.Fatal(err)
	}
	return conn
}

// read reads an answer.
func (k *fixture) read(conn net.Conn) answer {
	k.t.Helper()
	check.OK(k.t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.OK(k.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.OK(k.t, err)
	if resp.Close { // it is taken out of the headers
		resp.Header.Set("Connection", "close")
	}
	return answer{Status: resp.StatusCode, Header: resp.Header, Text: string(text)}
}

const head = "POST /hooks/h HTTP/1.1\r\nHost: x\r\n"

// TestSenderThatLeaves while it sends leaves nothing behind.
func TestSenderThatLeaves(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"before the body":   head + "Content-Length: 100\r\n\r\n",
		"within the body":   head + "Content-Length: 100\r\n\r\n{\"half\":",
		"one byte too soon": head + "Content-Length: 8\r\n\r\n{\"half\":"[:len("Content-Length: 8\r\n\r\n{\"half\"")],
		"within a chunk":    head + "Transfer-Encoding: chunked\r\n\r\n10\r\nhalf",
		"between chunks":    head + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"before the end":    head + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
		"in a wrong chunk":  head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhalf\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(t, hook.Hook{Slug: "h", Unverified: true})
			check.OK(t, k.dial("%s", text).Close())
			<-k.served
			k.none()
			if got := k.outcomes(); got["incomplete"] != 1 || len(got) != 1 {
				t.Errorf("counted are %v", got)
			}
		})
	}
}

// TestSlowSender is told so when its time is over.
func TestSlowSender(t *testing.T) {
	t.Parallel()
	k := newFixtureWith(t, hook.Config{Hooks: []hook.Hook{{Slug: "h", Unverified: true}}, ReadTimeout: 50 * time.Millisecond})
	got := k.read(k.dial("%sContent-Length: 100\r\n\r\n{", head))
	got.want(t, http.StatusRequestTimeout, "body_timeout")
	k.none()
	if got := k.outcomes(); got["timeout"] != 1 {
		t.Errorf("counted are %v", got)
	}
}

// TestDeadlineIsForReading only: a store may take longer, and the next webhook on the same
// connection has all the time again.
func TestDeadlineIsForReading(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	var k *fixture
	k = newFixtureWith(t, hook.Config{
		Hooks: []hook.Hook{{Slug: "h", Unverified: true}}, ReadTimeout: timeout,
		Receiver: receiver(func(context.Context, action.Received) (action.Action, bool, error) {
			request := <-k.requests
			select {
			case <-request.Done():
				t.Errorf("the request ends while it is stored: %v", context.Cause(request))
			case <-time.After(3 * timeout):
			}
			return action.Action{ID: "1"}, false, nil
		}),
	})
	conn := k.dial("")
	for _, body := range []string{"{}", "", "{}"} {
		if _, err := fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body); err != nil {
			t.Fatal(err)
		}
		if got := k.read(conn); got.Status != http.StatusAccepted {
			t.Fatalf("the answer is %d %s", got.Status, got.Text)
		}
	}
}

// TestSenderThatLeavesAtTheEnd has sent everything: it is kept.
func TestSenderThatLeavesAtTheEnd(t *testing.T) {
	t.Parallel()
	begun, stored := make(chan struct{}), make(chan error, 1)
	var k *fixture
	k = newFixtureWith(t, hook.Config{
		Hooks: []hook.Hook{{Slug: "h", Unverified: true}},
		Receiver: receiver(func(ctx context.Context, _ action.Received) (action.Action, bool, error) {
			close(begun)
			<-(<-k.requests).Done() // the server has noticed
			stored <- ctx.Err()
			return action.Action{ID: "1"}, false, nil
		}),
	})
	conn := k.dial("%sContent-Length: 2\r\n\r\n{}", head)
	<-begun
	check.OK(t, conn.Close())
	if err := <-stored; err != nil {
		t.Errorf("it is given up with the sender: %v", err)
	}
	<-k.served
}

// TestLargeBodyIsNotRead if its length says that it is too large: the sender, which waits
// to be asked for it, is refused at once.
func TestLargeBodyIsNotRead(t *testing.T) {
	t.Parallel()
	k := newFixture(t, hook.Hook{Slug: "h", Unverified: true})
	conn := k.dial("%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", head, hook.DefaultBody+1)
	got := k.read(conn)
	got.want(t, http.StatusRequestEntityTooLarge, "body_too_large")
	if got.Header.Get("Connection") != "close" {
		t.Errorf("the connection stays open: %v", got.Header)
	}
}
