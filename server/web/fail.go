package web

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// kinds are what errors of the services mean to a person.
var kinds = []struct {
	is     []error
	status int
	title  string
}{
	{[]error{abide.ErrStalled}, http.StatusConflict, "It has stalled again"},
	{[]error{abide.ErrPayload, abide.ErrUnserved}, http.StatusUnprocessableEntity, "That is not right yet"},
	{[]error{abide.ErrNotFound, timer.ErrNotFound, action.ErrNotFound, store.ErrNotFound}, http.StatusNotFound, "Not there"},
	{[]error{abide.ErrExists, timer.ErrExists, action.ErrExists}, http.StatusConflict, "There is one already"},
	{[]error{abide.ErrState, timer.ErrState, action.ErrState}, http.StatusConflict, "Not possible any more"},
	{[]error{abide.ErrConflict, timer.ErrConflict, action.ErrConflict}, http.StatusConflict, "Changed meanwhile"},
	{[]error{abide.ErrQuota, timer.ErrQuota}, http.StatusConflict, "As many as are allowed"},
	{[]error{abide.ErrBusy}, http.StatusTooManyRequests, "Too busy at the moment"},
	{[]error{action.ErrForbidden}, http.StatusForbidden, "Not allowed"},
	{[]error{abide.ErrInvalid, timer.ErrInvalid, action.ErrInvalid, store.ErrInvalid}, http.StatusBadRequest, "That is not right yet"},
	{[]error{store.ErrFull}, http.StatusServiceUnavailable, "The store is full"},
	{[]error{store.ErrClosed, store.ErrFailed}, http.StatusServiceUnavailable, "The store cannot be reached"},
}

// explain returns an error in the form in which a person reads it.
func explain(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &refusal{status: http.StatusRequestEntityTooLarge, title: "Too large", text: "A form may hold 2 MB at most."}
	}
	for _, k := range kinds {
		for _, is := range k.is {
			if errors.Is(err, is) {
				return &refusal{status: k.status, title: k.title, text: plainText(err, is)}
			}
		}
	}
	return &refusal{
		status: http.StatusInternalServerError, title: "Something is wrong here",
		text: "It is not your fault. The log of the server says more, under the ID of this request.",
	}
}

// goPrefix is what the text of an error begins with in Go: the package, and what it was doing.
var goPrefix = regexp.MustCompile(`^(abide|action|timer|operation|store): ([a-z][a-z ]*: )?`)

// plainText returns the text of an error without what only Go needs: the package before it, and
// the kind of the error behind it.
func plainText(err, kind error) string {
	text := goPrefix.ReplaceAllString(strings.TrimSuffix(err.Error(), ": "+kind.Error()), "")
	if text == "" {
		return err.Error()
	}
	return text
}

// requestIDHeader is the header in which the server passes the ID of the request.
const requestIDHeader = "X-Request-Id"

// fail shows an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	if gone(r, err) {
		return
	}
	e := explain(err)
	id := w.Header().Get(requestIDHeader)
	if e.status >= http.StatusInternalServerError {
		s.log.ErrorContext(r.Context(), "a page could not be shown", "path", r.URL.Path, "request", id, "error", err)
	}
	req := s.request(r)
	s.render(w, req, view{template: "error", title: e.title, status: e.status, data: struct {
		Text      string
		RequestID string
	}{e.text, id}})
}
