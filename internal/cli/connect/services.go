package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"slices"
	"strings"

	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
)

// storeOperations are the operations of a store, in the form that those of a server have.
type storeOperations struct {
	s *operation.Service
	Audit
}

func (o storeOperations) Start(ctx context.Context, n api.NewOperation) (api.Operation, error) {
	made, err := o.s.Start(ctx, n.Request(localUser()))
	return wireOperation(made, o.Note(ctx, "start-operation", n.Filter.Tenant, fmt.Sprintf("%s kind=%s all=%v reason=%q", made.ID, n.Kind, n.All, n.Reason), err))
}

func (o storeOperations) Get(ctx context.Context, tenant, id string) (api.Operation, error) {
	return wireOperation(o.s.Get(ctx, tenant, id))
}

func (o storeOperations) Cancel(ctx context.Context, tenant, id string) (api.Operation, error) {
	done, err := o.s.Cancel(ctx, tenant, id)
	return wireOperation(done, o.Note(ctx, "cancel-operation", tenant, id, err))
}

func (o storeOperations) List(ctx context.Context, f remote.OperationFilter) (api.OperationList, error) {
	query := operation.Query{Tenant: f.Tenant, Limit: f.Limit, Cursor: f.Cursor}
	for _, status := range f.Statuses {
		query.Statuses = append(query.Statuses, operation.Status(status))
	}
	for _, kind := range f.Kinds {
		query.Kinds = append(query.Kinds, operation.Kind(kind))
	}
	page, err := o.s.List(ctx, query)
	list := api.OperationList{Operations: make([]api.Operation, len(page.Operations)), NextPageToken: page.Next}
	for i := range page.Operations {
		list.Operations[i] = api.FromOperation(&page.Operations[i])
	}
	return list, err
}

func wireOperation(o operation.Operation, err error) (api.Operation, error) {
	return api.FromOperation(&o), err
}

// localUser is who asks, where no server knows better.
func localUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "local"
}

// StoreTokens are the tokens of a store, and its audit log, in the form that those of a
// server have. Who can open the store may do everything.
type StoreTokens struct{ guard *auth.Guard }

// asLocal returns a context with the identity of a local administrator.
func asLocal(ctx context.Context) context.Context {
	name := localUser()
	return auth.With(ctx, auth.Identity{Kind: auth.Local, Subject: "local:" + name, Name: name, Role: auth.Admin})
}

// Note keeps account of what was done, as a server does.
func (t StoreTokens) Note(ctx context.Context, operation, target string, err error) error {
	return errors.Join(err, noteLocal(ctx, t.guard, auth.Entry{Operation: operation, Target: target}, err))
}

// noteLocal notes what was done to a store that this process has opened.
func noteLocal(ctx context.Context, guard *auth.Guard, entry auth.Entry, err error) error {
	entry.Status, entry.Remote = http.StatusOK, "store"
	if err != nil {
		entry.Status, entry.Error = http.StatusBadRequest, err.Error()
	}
	ctx = context.WithoutCancel(asLocal(ctx))
	return errors.Join(guard.Note(ctx, entry), guard.Sweep(ctx))
}

// Create implements [TokensAPI].
func (t StoreTokens) Create(ctx context.Context, n api.NewToken) (api.CreatedToken, error) {
	made, secret, err := t.guard.CreateToken(asLocal(ctx), auth.NewToken{
		Name: n.Name, Role: auth.Role(n.Role), Tenants: n.Tenants, Serve: n.Serve, Expires: n.ExpiresAt, Rate: n.Rate,
	})
	what := fmt.Sprintf("%s role=%s tenants=%s serve=%s name=%q", made.ID, n.Role, strings.Join(n.Tenants, ","), strings.Join(n.Serve, ","), n.Name)
	return api.CreatedToken{Token: wireToken(&made), Secret: secret}, t.Note(ctx, "create-token", what, err)
}

// List implements [TokensAPI].
func (t StoreTokens) List(ctx context.Context, f remote.TokenFilter) (api.TokenList, error) {
	page, err := t.guard.Tokens(asLocal(ctx), f.Limit, f.Cursor)
	list := api.TokenList{Tokens: make([]api.Token, len(page.Tokens)), NextPageToken: page.Next}
	for i := range page.Tokens {
		list.Tokens[i] = wireToken(&page.Tokens[i])
	}
	return list, err
}

// Revoke implements [TokensAPI].
func (t StoreTokens) Revoke(ctx context.Context, id string) error {
	return t.Note(ctx, "revoke-token", id, t.guard.RevokeToken(asLocal(ctx), id))
}

// Sessions implements [TokensAPI].
func (t StoreTokens) Sessions(ctx context.Context, f remote.SessionFilter) (api.SessionList, error) {
	page, err := t.guard.Sessions(asLocal(ctx), auth.SessionQuery(f))
	return server.FromSessions(page), err
}

// RevokeSession implements [TokensAPI].
func (t StoreTokens) RevokeSession(ctx context.Context, id string) error {
	return t.Note(ctx, "revoke-session", id, t.guard.RevokeSession(asLocal(ctx), id))
}

// RevokeSessions implements [TokensAPI].
func (t StoreTokens) RevokeSessions(ctx context.Context, subject string) (int, error) {
	n, err := t.guard.RevokeSessions(asLocal(ctx), subject)
	return n, t.Note(ctx, "revoke-sessions", subject, err)
}

// Audit implements [TokensAPI].
func (t StoreTokens) Audit(ctx context.Context, q remote.AuditQuery) (api.AuditList, error) {
	page, err := t.guard.Audit(asLocal(ctx), auth.AuditQuery(q))
	list := api.AuditList{Entries: make([]api.AuditEntry, len(page.Entries)), NextPageToken: page.Next}
	for i, e := range page.Entries {
		list.Entries[i] = api.AuditEntry{
			At: e.At, RequestID: e.RequestID, Subject: e.Subject, Name: e.Name, Kind: string(e.Kind), Remote: e.Remote,
			Operation: e.Operation, Tenant: e.Tenant, Target: e.Target, Detail: e.Detail, Status: e.Status, Error: e.Error,
		}
	}
	return list, err
}

func wireToken(t *auth.Token) api.Token {
	return api.Token{
		ID: t.ID, Name: t.Name, Role: string(t.Role), Tenants: slices.Clone(t.Tenants), Serve: slices.Clone(t.Serve), CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.Expires, UsedAt: t.UsedAt, Rate: t.Rate,
	}
}
