package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// route adds a route to the API, with the role that it takes: without that
// role, or for a tenant in the path that is not the caller's, the handler is not called.
// A handler that gets its tenant elsewhere, in the query or in the body, calls [tenant] or
// [scope] first.
func route[I, O any](s *Server, role auth.Role, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	s.meters.know(op.OperationID)
	op.Middlewares = append(op.Middlewares, asOperation(op.OperationID), s.guard(role))
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = maxBody
	}
	if op.Method == http.MethodPost && role != auth.Read && op.Path != tokensPath { // secrets are kept nowhere
		op.Middlewares = append(op.Middlewares, s.once(op.MaxBodyBytes))
	}
	op.Security = []map[string][]string{{"token": {}}}
	op.Description = strings.TrimSpace(op.Description + "\n\nTakes the role " + string(role) + ".")
	changes := op.Method != http.MethodGet
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		if !changes && !readsNoted[op.OperationID] {
			return handler(ctx, in)
		}
		q := requestOf(ctx)
		entry := auth.Entry{Operation: op.OperationID, Tenant: tenantIn(q.escaped, op.Path), Target: q.path, Detail: detail(q.query, in)}
		if changes {
			if err := s.intend(ctx, entry); err != nil {
				return nil, err
			}
		}
		out, err := handler(ctx, in)
		entry.Tenant = cmp.Or(entry.Tenant, q.tenant())
		entry.Status, entry.Detail = cmp.Or(status(out), op.DefaultStatus, http.StatusOK), detail(q.query, in)
		if made := madeBy(out); err == nil && changes && made != "" {
			entry.Detail = withMade(entry.Detail, made)
		}
		s.noteEntry(ctx, entry, err)
		return out, err
	})
}

// readsNoted are operations that change nothing and are in the audit log all the same: they
// show the log itself, or what others have sent.
var readsNoted = map[string]bool{
	"list-audit": true, "list-tokens": true, "list-sessions": true, "get-action-body": true, "list-quarantine": true, "get-quarantined": true,
}

// tenantIn returns the tenant that a path names, where the route has one.
func tenantIn(path, route string) string {
	have, want := strings.Split(path, "/"), strings.Split(route, "/")
	if i := slices.Index(want, "{tenant}"); i >= 0 && i < len(have) {
		if name, err := url.PathUnescape(have[i]); err == nil {
			return name
		}
	}
	return ""
}

// guard lets only those through who have the role, and whose tenant it is.
func (s *Server) guard(role auth.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		who, ok := auth.Of(ctx.Context())
		switch {
		case !ok:
			s.refuse(ctx, newProblem(http.StatusUnauthorized, api.CodeUnauthenticated, "authentication required", "send a token as Authorization: Bearer …"))
		case !who.Role.Includes(role):
			s.refuse(ctx, newProblem(http.StatusForbidden, api.CodeForbidden, "role not sufficient",
				"it takes the role "+string(role)+", and "+who.Name+" has the role "+string(who.Role)))
		case ctx.Param("tenant") != "" && !who.Allows(ctx.Param("tenant")):
			s.refuse(ctx, otherTenant(who, ctx.Param("tenant")))
		default:
			next(ctx)
		}
	}
}

// refuse answers with a problem.
func (s *Server) refuse(ctx huma.Context, p *api.Problem) {
	ctx.SetHeader("Content-Type", p.ContentType(""))
	if p.Status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", "Bearer")
	}
	ctx.SetStatus(p.Status)
	_ = json.NewEncoder(ctx.BodyWriter()).Encode(p) // the client may be gone
}

// tenant returns an error unless the caller may see and change what is the tenant's. The
// audit log has the call under that tenant.
func tenant(ctx context.Context, name string) error {
	requestOf(ctx).about(name)
	who, _ := auth.Of(ctx)
	if !who.Allows(name) {
		return otherTenant(who, name)
	}
	return nil
}

// scope returns the tenant that a list is limited to: the one that was asked for, or the
// only one that the caller has; empty means all of them.
func scope(ctx context.Context, asked string) (string, error) {
	who, _ := auth.Of(ctx)
	switch {
	case asked != "":
		return asked, tenant(ctx, asked)
	case who.Tenants == nil:
		return "", nil
	case len(who.Tenants) == 1:
		return who.Tenants[0], nil
	default:
		return "", newProblem(http.StatusForbidden, api.CodeForbidden, "tenant required",
			"add tenant=… to the query; allowed: "+strings.Join(slices.Sorted(slices.Values(who.Tenants)), ", "))
	}
}

func otherTenant(who auth.Identity, name string) *api.Problem {
	return newProblem(http.StatusForbidden, api.CodeForbidden, "tenant not allowed",
		who.Name+" has no access to tenant "+name)
}
