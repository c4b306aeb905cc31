package api

import (
	"fmt"
	"net/http"
)

// Problem is an error, as RFC 9457 has it, with a code that programs can rely on.
type Problem struct {
	Type   string `json:"type" doc:"Where to read more about this kind of problem."`
	Title  string `json:"title" doc:"The kind of problem, in words."`
	Status int    `json:"status" doc:"The HTTP status."`
	Detail string `json:"detail,omitempty" doc:"What went wrong this time."`
	Code   string `json:"code" doc:"The kind of problem. It never changes its meaning."`

	Errors []ProblemDetail `json:"errors,omitempty" doc:"What is wrong with the request, part by part."`
}

// ProblemDetail is what is wrong with a part of a request.
type ProblemDetail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"Where: body.slug, query.limit and so on."`
}

// Error says what went wrong.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		text += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	return text
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the answer: Retry-After if the server is too busy.
func (p *Problem) GetHeaders() http.Header {
	if p.Code != CodeBusy {
		return nil
	}
	return http.Header{"Retry-After": {"1"}}
}

// ContentType is that of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Codes of problems.
const (
	CodeInvalid         = "invalid"                // the request is invalid; a retry fails again
	CodePayload         = "invalid_payload"        // an input or event does not fit the type that workers have published
	CodeUnserved        = "unserved"               // no worker has ever registered the orchestration
	CodeNotFound        = "not_found"              // the resource or route does not exist
	CodeMethod          = "wrong_method"           // the route does not have the method
	CodeExists          = "already_exists"         // a resource with that ID exists
	CodeState           = "wrong_state"            // the status of the resource does not allow the request
	CodeConflict        = "conflict"               // a concurrent change has won; try again
	CodeQuota           = "quota_exceeded"         // the tenant has used up its quota
	CodeTooLarge        = "too_large"              // the request exceeds a size limit
	CodeUnauthenticated = "unauthenticated"        // the credentials are missing or unknown
	CodeForbidden       = "forbidden"              // the role or the tenant does not allow the request
	CodePrecondition    = "precondition_failed"    // If-Match or If-None-Match does not hold
	CodeKeyReused       = "idempotency_key_reused" // the Idempotency-Key was used for another request
	CodeUnderWay        = "under_way"              // a request with the same Idempotency-Key is in progress
	CodeCrossOrigin     = "cross_origin"           // the request comes from a page of another origin
	CodeRate            = "too_many_requests"      // the rate limit is exceeded; try again after Retry-After
	CodeBusy            = "busy"                   // the server has more to do than it can; try again after Retry-After
	CodeUnavailable     = "unavailable"            // the store is unreachable or full; try again
	CodeInternal        = "internal"               // an error of the server
)
