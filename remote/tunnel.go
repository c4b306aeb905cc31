package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/abidehq/abide/internal/workerpb"
)

// tunnel makes requests of the HTTP API over the connection of a worker.
type tunnel struct{ l *link }

// httpOver returns a client of the HTTP API whose requests another connection carries.
func httpOver(carrier http.RoundTripper) *Client {
	return &Client{base: "http://abide", http: &http.Client{Transport: carrier}}
}

// RoundTrip makes a request.
func (t *tunnel) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := t.l.current(r.Context())
	if err != nil {
		return nil, err
	}
	call := &workerpb.CallRequest{Method: r.Method, Target: r.URL.RequestURI(), Header: map[string]string{}}
	for name, values := range r.Header {
		call.Header[name] = strings.Join(values, ", ")
	}
	if r.Body != nil {
		defer r.Body.Close()
		if call.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	stream, err := workerpb.NewWorkersClient(s.conn).Call(t.l.withToken(ctx), call)
	if err != nil {
		cancel()
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	resp := &http.Response{
		StatusCode: int(first.GetStatus()), Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{}, Request: r,
		Body: &parts{stream: stream, rest: first.GetBody(), cancel: cancel}, ContentLength: -1,
	}
	for name, value := range first.GetHeader() {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// parts is the body of an answer, which comes in parts.
type parts struct {
	stream interface {
		Recv() (*workerpb.CallPart, error)
	}
	rest   []byte
	cancel context.CancelFunc // ends the stream
}

// Read returns what has come.
func (p *parts) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		part, err := p.stream.Recv()
		if err != nil {
			return 0, err // io.EOF at the end
		}
		p.rest = part.GetBody()
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close leaves the rest unread.
func (p *parts) Close() error {
	p.cancel()
	return nil
}
