package api

import "fmt"

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

// ContentType is that of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Codes of problems.
const (
	CodeInvalid         = "invalid"                // the request breaks a rule, and would break it again
	CodeNotFound        = "not_found"              // there is no such thing
	CodeMethod          = "wrong_method"           // the route does not have that method
	CodeExists          = "already_exists"         // there is such a thing already
	CodeState           = "wrong_state"            // its status does not allow it
	CodeConflict        = "conflict"               // it was changed by others meanwhile
	CodeQuota           = "quota_exceeded"         // the tenant has used up what it may
	CodeTooLarge        = "too_large"              // the request is larger than is allowed
	CodeUnauthenticated = "unauthenticated"        // a token is needed, or the one that was sent is not known
	CodeForbidden       = "forbidden"              // the role or the tenant does not allow it
	CodePrecondition    = "precondition_failed"    // If-Match or If-None-Match does not hold
	CodeKeyReused       = "idempotency_key_reused" // the Idempotency-Key was sent with another request
	CodeUnderWay        = "under_way"              // a request with the same Idempotency-Key has no answer yet
	CodeCrossOrigin     = "cross_origin"           // a page of somebody else has sent it
	CodeRate            = "too_many_requests"      // more requests than are allowed; try again after Retry-After
	CodeUnavailable     = "unavailable"            // the store cannot be reached, or has no room; try again
	CodeInternal        = "internal"               // something is wrong with the server
)
