package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/abidehq/abide/server/api"
)

// tagged is a response with a body that has a version.
type tagged[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Body   T
}

// etag returns a version as the header ETag has it.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ifMatch returns the version that the header If-Match asks for; 0 means any.
func ifMatch(header string) (int64, error) {
	text := strings.TrimSpace(header)
	if text == "" || text == "*" {
		return 0, nil
	}
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	version, err := strconv.ParseInt(inner, 10, 64)
	if !ok || !ok2 || err != nil || version <= 0 {
		return 0, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request",
			"If-Match is "+strconv.Quote(header)+`; the ETag of an answer is allowed, such as "3", or *`)
	}
	return version, nil
}

// unmatched returns the problem of a request whose If-Match does not hold.
func unmatched(err error) *api.Problem {
	return newProblem(http.StatusPreconditionFailed, api.CodePrecondition, "conflicting change", err.Error())
}
