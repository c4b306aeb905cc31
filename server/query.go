package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
)

// when is a time in a query, as [api.ParseTime] reads it. A time without a zone is in UTC.
type when struct{ text string }

// UnmarshalText reads a time. A plus that was not encoded has become a space.
func (w *when) UnmarshalText(text []byte) error {
	w.text = string(text)
	if after, ok := strings.CutPrefix(w.text, " "); ok {
		w.text = "+" + after
	}
	_, err := api.ParseTime(w.text, time.Time{}, time.UTC)
	return err
}

// at returns the time, or the zero time if the query has none.
func (w when) at(now time.Time) time.Time {
	if w.text == "" {
		return time.Time{}
	}
	t, _ := api.ParseTime(w.text, now, time.UTC) // UnmarshalText has accepted it
	return t
}

// reasoned names what a request is about, and why: in the body, or in the query.
type reasoned struct {
	Tenant string      `path:"tenant"`
	ID     string      `path:"id"`
	Reason string      `query:"reason" doc:"Why. It can be in the body instead."`
	Body   *api.Reason `doc:"Why."`
}

// why returns the reason, which may have that many bytes.
func (r *reasoned) why(most int) (string, error) {
	if r.Body == nil {
		return r.Reason, checkReason(r.Reason, r.Reason, most)
	}
	return r.Body.Reason, checkReason(r.Reason, r.Body.Reason, most)
}

// checkReason reports a reason that is too long, or is not the one in the query.
func checkReason(query, why string, most int) error {
	switch {
	case query != "" && query != why:
		return newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "the query and the body have different reasons; send one")
	case len(why) > most:
		return newProblem(http.StatusUnprocessableEntity, api.CodeInvalid, "invalid request", fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(why), most))
	default:
		return nil
	}
}

// withPageSize returns a request of the API whose query has page_size where it had limit, as the
// command line and Go call it.
func withPageSize(r *http.Request) *http.Request {
	q := r.URL.Query()
	if !strings.HasPrefix(r.URL.Path, "/api/") || !q.Has("limit") || q.Has("page_size") {
		return r
	}
	q["page_size"] = q["limit"]
	q.Del("limit")
	renamed := new(http.Request)
	*renamed = *r
	renamed.URL = new(url.URL)
	*renamed.URL = *r.URL
	renamed.URL.RawQuery = q.Encode()
	return renamed
}

// unknownParameter is what the framework says of a query parameter that an operation does not have.
const unknownParameter = "unknown query parameter"

// knownParameters returns the names of the query parameters of an operation, in words.
func knownParameters(op *huma.Operation) string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "there are none here"
	}
	return "allowed: " + strings.Join(names, ", ")
}
