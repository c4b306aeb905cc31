package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// sentinels are the errors that the codes of problems stand for.
var sentinels = map[string]error{
	api.CodeNotFound:     abide.ErrNotFound,
	api.CodeExists:       abide.ErrExists,
	api.CodeState:        abide.ErrState,
	api.CodeConflict:     abide.ErrConflict,
	api.CodePrecondition: abide.ErrConflict,
	api.CodePayload:      abide.ErrPayload,
	api.CodeUnserved:     abide.ErrUnserved,
	api.CodeInvalid:      abide.ErrInvalid,
	api.CodeTooLarge:     abide.ErrInvalid,
	api.CodeStalled:      abide.ErrStalled,
	api.CodeQuota:        abide.ErrQuota,
	api.CodeBusy:         abide.ErrBusy,
}

// failure returns the error that an answer stands for: the one that the server met.
func failure(status int, data []byte) error {
	var p api.Problem
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return fmt.Errorf("remote: the server answered %d %s", status, http.StatusText(status))
	}
	if is := sentinels[p.Code]; is != nil {
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
