package workers

import (
	"bytes"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/grpcserve"
)

// Call makes a request of the HTTP API, which checks who makes it.
func (s *Service) Call(call *workerpb.CallRequest, stream workerpb.Workers_CallServer) error {
	r := grpcserve.Request(stream.Context(), workPath)
	target, err := url.ParseRequestURI(call.GetTarget())
	if err != nil {
		return status.Error(codes.InvalidArgument, "the target of the call is no path")
	}
	r.Method, r.URL, r.RequestURI, r.Proto, r.ProtoMajor = call.GetMethod(), target, call.GetTarget(), "HTTP/2.0", 2
	for name, value := range call.GetHeader() {
		if http.CanonicalHeaderKey(name) != "Authorization" { // that of the connection counts
			r.Header.Set(name, value)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(call.GetBody())), int64(len(call.GetBody()))
	w := &answer{stream: stream, header: http.Header{}}
	s.cfg.API.ServeHTTP(w, r)
	return w.end()
}

// maxPart is how much of an answer is sent at a time.
const maxPart = 1 << 20

// answer sends what a handler writes in parts.
type answer struct {
	stream workerpb.Workers_CallServer
	header http.Header
	status int
	sent   bool // the status and the header
	body   []byte
	err    error
}

var (
	_ http.ResponseWriter = (*answer)(nil)
	_ http.Flusher        = (*answer)(nil)
)

// Header returns the header.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sets the status.
func (a *answer) WriteHeader(code int) {
	if a.status == 0 && code >= http.StatusOK {
		a.status = code
	}
}

// Write adds to the body.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	if len(a.body) >= maxPart {
		a.Flush()
	}
	return len(b), a.err
}

// Flush sends what was written.
func (a *answer) Flush() {
	if a.err != nil || a.sent && len(a.body) == 0 {
		return
	}
	a.WriteHeader(http.StatusOK)
	part := &workerpb.CallPart{Body: a.body}
	if !a.sent {
		part.Status, part.Header = int32(a.status), map[string]string{}
		for name := range a.header {
			part.Header[name] = a.header.Get(name)
		}
	}
	a.err = a.stream.Send(part)
	a.sent, a.body = true, nil
}

// end sends the rest.
func (a *answer) end() error {
	a.Flush()
	return a.err
}
