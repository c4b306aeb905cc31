package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

// problems says what errors become, the first that matches.
var problems = []struct {
	is     error
	status int
	code   string
	title  string
}{
	{abide.ErrStalled, http.StatusConflict, api.CodeStalled, "the instance has stalled"},
	{abide.ErrPayload, http.StatusUnprocessableEntity, api.CodePayload, "payload does not fit its type"},
	{abide.ErrUnserved, http.StatusUnprocessableEntity, api.CodeUnserved, "not served by any worker"},
	{abide.ErrNotFound, http.StatusNotFound, api.CodeNotFound, "not found"},
	{abide.ErrExists, http.StatusConflict, api.CodeExists, "already exists"},
	{abide.ErrState, http.StatusConflict, api.CodeState, "wrong state"},
	{abide.ErrConflict, http.StatusConflict, api.CodeConflict, "conflicting change"},
	{abide.ErrQuota, http.StatusTooManyRequests, api.CodeQuota, "tenant quota exceeded"},
	{abide.ErrBusy, http.StatusTooManyRequests, api.CodeBusy, "too busy"},
	{action.ErrForbidden, http.StatusForbidden, api.CodeForbidden, "target not allowed"},
	{store.ErrTooLarge, http.StatusRequestEntityTooLarge, api.CodeTooLarge, "request too large"},
	{abide.ErrInvalid, http.StatusBadRequest, api.CodeInvalid, "invalid request"},
	{store.ErrReadOnly, http.StatusConflict, api.CodeState, "store is read-only"},
	{store.ErrFull, http.StatusServiceUnavailable, api.CodeUnavailable, "store is full"},
	{store.ErrClosed, http.StatusServiceUnavailable, api.CodeUnavailable, "store is closed"},
	{store.ErrFailed, http.StatusServiceUnavailable, api.CodeUnavailable, "store has failed"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, api.CodeUnavailable, "timed out"},
}

// problem returns an error of a service as what a client gets, or nil.
func (s *Server) problem(err error) error {
	if err == nil {
		return nil
	}
	return s.asProblem(err)
}

// Problem returns an error as the API answers it, for those that answer in another way.
func (s *Server) Problem(err error) *api.Problem { return s.asProblem(err) }

// asProblem returns an error of a service as what a client gets. Those that nobody expects
// are logged, and the client learns no more than that.
func (s *Server) asProblem(err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	for _, p := range problems {
		if !errors.Is(err, p.is) {
			continue
		}
		if p.status >= http.StatusInternalServerError { // its text may name hosts and users
			s.log.Error("request failed", "error", err)
			return newProblem(p.status, p.code, p.title, logSaysMore)
		}
		return newProblem(p.status, p.code, p.title, err.Error())
	}
	if errors.Is(err, context.Canceled) { // by a client that does not wait for the answer
		return newProblem(http.StatusServiceUnavailable, api.CodeUnavailable, "request cancelled", "the client did not wait for the answer")
	}
	s.log.Error("request failed", "error", err)
	return newProblem(http.StatusInternalServerError, api.CodeInternal, "internal error", logSaysMore)
}

// logSaysMore is all that a client learns of what is wrong with the server or its store.
const logSaysMore = "see the server's log"

// writeProblem answers with a problem.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

func newProblem(status int, code, title, detail string) *api.Problem {
	return &api.Problem{Type: "about:blank", Title: title, Status: status, Code: code, Detail: detail}
}

// codes are those of problems that are found before a handler is called.
var codes = map[int]string{
	http.StatusNotFound:              api.CodeNotFound,
	http.StatusRequestEntityTooLarge: api.CodeTooLarge,
	http.StatusInternalServerError:   api.CodeInternal,
}

// toProblem gives problems that the framework has found the form that all others have.
func toProblem(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code, ok := codes[m.Status]
	if !ok {
		code = api.CodeInvalid
	}
	p := newProblem(m.Status, code, m.Title, m.Detail)
	for _, e := range m.Errors {
		if e.Message == unknownParameter {
			e.Message += "; " + knownParameters(ctx.Operation())
		}
		p.Errors = append(p.Errors, api.ProblemDetail{Message: e.Message, Location: e.Location})
	}
	return p, nil
}

// noRoute gives what the multiplexer says of a request that has no route, or not with that
// method, the form that all other problems have.
type noRoute struct {
	http.ResponseWriter
	answered bool
}

// WriteHeader writes the problem.
func (w *noRoute) WriteHeader(status int) {
	if w.answered {
		return
	}
	w.answered = true
	p := newProblem(status, api.CodeNotFound, "no such route", "see /openapi.json; a slash in an ID or a name is written as %2F")
	if status == http.StatusMethodNotAllowed {
		p.Code, p.Title = api.CodeMethod, "method not allowed"
		p.Detail = "allowed: " + w.Header().Get("Allow")
	}
	writeProblem(w.ResponseWriter, p)
}

// Unwrap lets others reach the connection.
func (w *noRoute) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write drops the text that the problem stands for.
func (w *noRoute) Write(text []byte) (int, error) {
	if !w.answered {
		w.WriteHeader(http.StatusNotFound)
	}
	return len(text), nil
}
