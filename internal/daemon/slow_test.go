package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// quick is a server with little patience.
func quick(t *testing.T, most int, h http.HandlerFunc) (address string) {
	t.Helper()
	d := &daemon{cfg: configure(t, ""), clock: timeless{}, log: discard(), fail: func(error) {}}
	d.draining, d.drain = context.WithCancel(context.Background())
	l, err := listenTCP(t.Context(), "127.0.0.1:0", most)
	check.OK(t, err)
	f := &front{}
	s := f.add("http", l, d.outside(h))
	s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.IdleTimeout = patience, patience, patience
	f.serve(d)
	t.Cleanup(func() {
		d.drain()
		f.close()
		f.running.Wait()
	})
	return l.Addr().String()
}

// patience is what the server has.
const patience = 100 * time.Millisecond

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	check.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.OK(t, conn.SetDeadline(time.Now().Add(patient)))
	return conn
}

// TestSlowClientsAreCutOff: those who send no header, half of one, and half of a body.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	address := quick(t, 10, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	for name, text := range map[string]string{
		"nothing":          "",
		"half of a header": "GET / HTTP/1.1\r\nHost: a\r\n",
		"half of a body":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		conn := dial(t, address)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil { // ends when the server closes the connection
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := <-failed; err == nil {
		t.Error("half of a body is taken for a whole one")
	}
}

// TestNoMoreConnectionsThanAllowed: others wait until there is room.
func TestNoMoreConnectionsThanAllowed(t *testing.T) {
	t.Parallel()
	may, begun := make(chan struct{}), make(chan struct{}, 2)
	address := quick(t, 1, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-may
	})
	const request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	first, second := dial(t, address), dial(t, address)
	fmt.Fprint(first, request)
	<-begun
	fmt.Fprint(second, request)
	select {
	case <-begun:
		t.Error("the second is served while the first is there")
	case <-time.After(2 * patience):
	}
	close(may)
	<-begun
	if answer, err := io.ReadAll(second); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("the second got %q, %v", answer, err)
	}
}

// TestAStreamIsNotWhatAClientCallsOne: who says that it wants a stream, and reads nothing of
// an answer that is none, is cut off like others.
func TestAStreamIsNotWhatAClientCallsOne(t *testing.T) {
	t.Parallel()
	d := &daemon{clock: timeless{}, draining: t.Context()}
	h := d.outside(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody)
	r.Header.Set("Accept", "text/event-stream")
	w := &watched{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, r)
	if left := time.Until(w.deadline); left <= 0 || left > answerTimeout {
		t.Errorf("the client has until %v to take the answer", w.deadline)
	}
}

// watched is an answer that knows until when it may be written.
type watched struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *watched) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}
