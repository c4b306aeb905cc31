package hook

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// outcome is the result of a request, and the label of a metric.
type outcome string

const (
	outcomeAccepted  outcome = "accepted"
	outcomeDuplicate outcome = "duplicate"
	outcomeIgnored   outcome = "ignored"

	// The others are refused.
	outcomeUnknown    outcome = "unknown"
	outcomeMethod     outcome = "method"
	outcomeOrigin     outcome = "origin"
	outcomeAddress    outcome = "address"
	outcomeRate       outcome = "rate"
	outcomeTooLarge   outcome = "too_large"
	outcomeTimeout    outcome = "timeout"
	outcomeIncomplete outcome = "incomplete"
	outcomeUnsigned   outcome = "unsigned"
	outcomeMalformed  outcome = "malformed"
	outcomeStale      outcome = "stale"
	outcomeSignature  outcome = "signature"
	outcomeDelivery   outcome = "delivery"
	outcomeStore      outcome = "store"
	outcomeInternal   outcome = "internal"
)

// problem is what a sender is told, as RFC 9457 has it. Code stays the same when the
// words change.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
}

// unproved is the one answer to all that is wrong with a signature: what it is would help
// those who try.
var unproved = problem{Title: "The signature is missing or not valid.", Status: http.StatusUnauthorized, Code: "signature_invalid"}

var problems = map[outcome]problem{
	outcomeUnknown:    {Title: "There is no such hook.", Status: http.StatusNotFound, Code: "hook_not_found"},
	outcomeMethod:     {Title: "Webhooks are sent with POST.", Status: http.StatusMethodNotAllowed, Code: "method_not_allowed"},
	outcomeOrigin:     {Title: "A hook without signatures takes nothing from web pages.", Status: http.StatusForbidden, Code: "cross_origin"},
	outcomeAddress:    {Title: "Too many webhooks from this address were refused.", Status: http.StatusTooManyRequests, Code: "rate_limited"},
	outcomeRate:       {Title: "Too many webhooks are sent to this hook.", Status: http.StatusTooManyRequests, Code: "rate_limited"},
	outcomeTooLarge:   {Title: "The body is larger than this hook allows.", Status: http.StatusRequestEntityTooLarge, Code: "body_too_large"},
	outcomeTimeout:    {Title: "The body took too long to arrive.", Status: http.StatusRequestTimeout, Code: "body_timeout"},
	outcomeIncomplete: {Title: "The body ended too early.", Status: http.StatusBadRequest, Code: "body_incomplete"},
	outcomeUnsigned:   unproved,
	outcomeMalformed:  unproved,
	outcomeStale:      unproved,
	outcomeSignature:  unproved,
	outcomeDelivery:   {Title: "The delivery ID is missing or not valid.", Status: http.StatusBadRequest, Code: "delivery_id_invalid"},
	outcomeStore:      {Title: "The webhook could not be stored. Send it again.", Status: http.StatusServiceUnavailable, Code: "unavailable"},
	outcomeInternal:   {Title: "The hook is not configured right.", Status: http.StatusInternalServerError, Code: "internal"},
}

// refuse writes a problem.
func refuse(w http.ResponseWriter, p problem) {
	p.Type = "about:blank"
	write(w, p.Status, "application/problem+json", p)
}

// accept writes the ID of the action.
func accept(w http.ResponseWriter, id string, duplicate bool) {
	status := http.StatusAccepted
	if duplicate {
		status = http.StatusOK
	}
	write(w, status, "application/json", struct {
		ID string `json:"id"`
	}{id})
}

func write(w http.ResponseWriter, status int, contentType string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, nil // not reached: there are only texts and numbers
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a sender that is gone needs no answer
}
