package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// sentinels are the errors that problems stand for, by their code.
type sentinels map[string]error

// The errors of what a route is about: by the noun in its path, and of all that are not
// named.
var (
	nouns = map[string]sentinels{
		"actions":   ofActions,
		"schedules": ofActions,
		"timers":    ofTimers,
		// What became of envelopes is told by timers.
		"deliveries": ofTimers,
	}
	ofActions = sentinels{
		api.CodeNotFound:     action.ErrNotFound,
		api.CodeExists:       action.ErrExists,
		api.CodeState:        action.ErrState,
		api.CodeConflict:     action.ErrConflict,
		api.CodePrecondition: action.ErrConflict,
		api.CodeInvalid:      action.ErrInvalid,
		api.CodeTooLarge:     action.ErrInvalid,
	}
	ofTimers = sentinels{
		api.CodeNotFound:     timer.ErrNotFound,
		api.CodeExists:       timer.ErrExists,
		api.CodeState:        timer.ErrState,
		api.CodeConflict:     timer.ErrConflict,
		api.CodePrecondition: timer.ErrConflict,
		api.CodeQuota:        timer.ErrQuota,
		api.CodeInvalid:      timer.ErrInvalid,
		api.CodeTooLarge:     timer.ErrInvalid,
	}
	ofOthers = sentinels{
		api.CodeNotFound:     abide.ErrNotFound,
		api.CodeExists:       abide.ErrExists,
		api.CodeState:        abide.ErrState,
		api.CodeConflict:     abide.ErrConflict,
		api.CodePrecondition: abide.ErrConflict,
		api.CodeInvalid:      abide.ErrInvalid,
		api.CodeTooLarge:     abide.ErrInvalid,
		api.CodeStalled:      abide.ErrStalled,
		api.CodeQuota:        abide.ErrQuota,
	}
)

// sentinelsOf returns the errors of what a path is about.
func sentinelsOf(path string) sentinels {
	noun := strings.TrimPrefix(path, "/api/v1/")
	if end := strings.IndexAny(noun, "/?"); end >= 0 {
		noun = noun[:end]
	}
	if of, ok := nouns[noun]; ok {
		return of
	}
	return ofOthers
}

// failure returns the error that the answer to a request for a path stands for: the one that
// the server met.
func failure(path string, status int, data []byte) error {
	var p api.Problem
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return fmt.Errorf("remote: the server answered %d %s", status, http.StatusText(status))
	}
	if is := sentinelsOf(path)[p.Code]; is != nil {
		return &problem{p, is}
	}
	return &p
}

// problem is what a server said, and matches the error that it met.
type problem struct {
	api.Problem
	is error
}

// Unwrap returns the error that the server met, and what it said about it.
func (p *problem) Unwrap() []error { return []error{p.is, &p.Problem} }

// where returns the path of something of a tenant.
func where(kind, tenant, id string, verb ...string) string {
	return "/api/v1/" + strings.Join(append([]string{kind, element(tenant), element(id)}, verb...), "/")
}

// element returns a name as an element of a path. Dots alone would mean another path.
func element(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}
