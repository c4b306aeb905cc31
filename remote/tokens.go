package remote

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/abidehq/abide/server/api"
)

// Tokens are the API tokens of a server, and the account of what was done with them. Its
// methods take the role admin.
type Tokens struct{ c *Client }

// Tokens returns the server's API tokens.
func (c *Client) Tokens() *Tokens { return &Tokens{c} }

// Create makes a token. Its secret is in the answer, and nowhere else.
func (t *Tokens) Create(ctx context.Context, n api.NewToken) (api.CreatedToken, error) {
	var out api.CreatedToken
	_, err := t.c.call(ctx, http.MethodPost, "/api/v1/tokens", nil, n, &out)
	return out, err
}

// TokenFilter selects a page of the tokens.
type TokenFilter struct {
	// Limit is the size of a page; 0 leaves it to the server. Cursor is the NextPageToken of the
	// previous page; it is empty for the first page.
	Limit  int
	Cursor string
}

// List returns a page of the tokens, the latest first.
func (t *Tokens) List(ctx context.Context, f TokenFilter) (api.TokenList, error) {
	var out api.TokenList
	_, err := t.c.call(ctx, http.MethodGet, "/api/v1/tokens", page(f.Limit, f.Cursor), nil, &out)
	return out, err
}

// Revoke ends a token, and the sessions that were opened with it.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	_, err := t.c.call(ctx, http.MethodDelete, "/api/v1/tokens/"+url.PathEscape(id), nil, nil, nil)
	return err
}

// SessionFilter selects sessions that match all fields that are set.
type SessionFilter struct {
	Subject string

	// Limit is the size of a page; 0 leaves it to the server. Cursor is the NextPageToken of the
	// previous page; it is empty for the first page.
	Limit  int
	Cursor string
}

// Sessions returns a page of the logins to the page that match f, those that end last first.
func (t *Tokens) Sessions(ctx context.Context, f SessionFilter) (api.SessionList, error) {
	values := page(f.Limit, f.Cursor)
	set(values, "subject", f.Subject)
	var out api.SessionList
	_, err := t.c.call(ctx, http.MethodGet, "/api/v1/sessions", values, nil, &out)
	return out, err
}

// RevokeSession ends a login.
func (t *Tokens) RevokeSession(ctx context.Context, id string) error {
	_, err := t.c.call(ctx, http.MethodDelete, "/api/v1/sessions/"+url.PathEscape(id), nil, nil, nil)
	return err
}

// RevokeSessions ends all logins of a subject, and returns how many.
func (t *Tokens) RevokeSessions(ctx context.Context, subject string) (int, error) {
	values := url.Values{}
	set(values, "subject", subject)
	var out api.RevokedSessions
	_, err := t.c.call(ctx, http.MethodDelete, "/api/v1/sessions", values, nil, &out)
	return out.Revoked, err
}

// AuditQuery says which entries of the audit log to return. An entry must match all that
// is set.
type AuditQuery struct {
	// From and To bound the time: From <= At < To. Zero means unbounded.
	From, To time.Time

	Subject   string
	Tenant    string
	Operation string

	// Limit is how many entries at most; 0 leaves it to the server. Cursor is the
	// NextPageToken of the page before, or empty.
	Limit  int
	Cursor string
}

// Audit returns entries of the audit log, the latest first.
func (t *Tokens) Audit(ctx context.Context, q AuditQuery) (api.AuditList, error) {
	values := page(q.Limit, q.Cursor)
	setTime(values, "from", q.From)
	setTime(values, "to", q.To)
	set(values, "subject", q.Subject)
	set(values, "tenant", q.Tenant)
	set(values, "operation", q.Operation)
	var out api.AuditList
	_, err := t.c.call(ctx, http.MethodGet, "/api/v1/audit", values, nil, &out)
	return out, err
}

// Whoami returns who the server takes this client for. It takes no role but read.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	var out api.Whoami
	_, err := c.call(ctx, http.MethodGet, "/api/v1/whoami", nil, nil, &out)
	return out, err
}
