package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// tokenWorld is a server over https that asks who makes a request.
type tokenWorld struct {
	t     *testing.T
	store store.Store
	guard *auth.Guard
	s     *httptest.Server
}

func newTokenWorld(t *testing.T) *tokenWorld {
	t.Helper()
	w := &tokenWorld{t: t, store: memstore.New(memstore.Options{})}
	t.Cleanup(func() { _ = w.store.Close() })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if w.guard, err = auth.New(auth.Config{Store: w.store, Logger: log}); err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(server.Config{Store: w.store, Auth: w.guard, Version: "v0.0.0-test", Logger: log})
	check.OK(t, err)
	w.s = httptest.NewTLSServer(handler)
	t.Cleanup(w.s.Close)
	return w
}

// token makes a token, as an operator with access to the store does.
func (w *tokenWorld) token(role auth.Role, tenants ...string) string {
	w.t.Helper()
	local := auth.With(w.t.Context(), auth.Identity{Kind: auth.Local, Subject: "local", Role: auth.Admin})
	_, secret, err := w.guard.CreateToken(local, auth.NewToken{Name: string(role), Role: role, Tenants: tenants})
	check.OK(w.t, err)
	return secret
}

// client returns a client with a token.
func (w *tokenWorld) client(token string) *remote.Client {
	w.t.Helper()
	transport, _ := w.s.Client().Transport.(*http.Transport)
	c, err := remote.New(w.s.URL, remote.WithToken(token), remote.WithTLS(transport.TLSClientConfig))
	check.OK(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// do makes a request with a token.
func (w *tokenWorld) do(request, token, body string) answer {
	w.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.s.URL+path, strings.NewReader(body))
	check.OK(w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.s.Client().Do(req)
	check.OK(w.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(w.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, kind: resp.Header.Get("Content-Type"), body: string(data)}
	_ = json.Unmarshal(data, &a.object) // not all of them are objects
	return a
}

func TestTokenRoutes(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	admin := w.token(auth.Admin)
	for _, tt := range []struct {
		request, body string
		status        int
		want          string // in the body
	}{
		{"POST /api/v1/tokens", `{"name":"x","role":"read"}`, 201, `"secret":"abide_`},
		{"POST /api/v1/tokens", `{"name":"y","role":"operate","tenants":["a"],"expires_at":"2999-01-01T00:00:00Z","rate":2.5}`, 201, `"tenants":["a"]`},
		{"POST /api/v1/tokens", `{"name":"x","role":"root"}`, 422, `body.role`},
		{"POST /api/v1/tokens", `{"role":"read"}`, 422, `name`},
		{"POST /api/v1/tokens", `{"name":"","role":"read"}`, 422, `body.name`},
		{"POST /api/v1/tokens", `{"name":"a\nb","role":"read"}`, 400, `"code":"invalid"`},
		{"POST /api/v1/tokens", `{"name":"x","role":"read","tenants":[]}`, 422, `body.tenants`},
		{"POST /api/v1/tokens", `{"name":"x","role":"read","tenants":[""]}`, 400, `"code":"invalid"`},
		{"POST /api/v1/tokens", `{"name":"x","role":"read","expires_at":"2001-01-01T00:00:00Z"}`, 400, `in the past`},
		{"POST /api/v1/tokens", `{"name":"x","role":"read","rate":-1}`, 422, `body.rate`},
		{"POST /api/v1/tokens", `{"name":"x","role":"read","secret":"mine"}`, 422, `secret`},
		{"POST /api/v1/tokens", `{"name":"` + strings.Repeat("x", 2<<20) + `","role":"read"}`, 413, `"code":"too_large"`},
		{"POST /api/v1/tokens", `{`, 400, `"code":"invalid"`},
		{"GET /api/v1/tokens", "", 200, `"name":"y"`},
		{"GET /api/v1/tokens?page_size=1", "", 200, `"next_page_token":`},
		{"GET /api/v1/tokens?page_size=0", "", 422, `page_size`},
		{"GET /api/v1/tokens?page_token=x", "", 400, `"code":"invalid"`},
		{"DELETE /api/v1/tokens/abcdefghijklmnop", "", 404, `"code":"not_found"`},
		{"DELETE /api/v1/tokens/..%2f..%2fx", "", 404, `"code":"not_found"`},
		{"GET /api/v1/audit", "", 200, `"operation":"create-token"`},
		{"GET /api/v1/audit?operation=revoke-token&page_size=1", "", 200, `"status":404`},
		{"GET /api/v1/audit?from=2999-01-01T00:00:00Z", "", 200, `"entries":[]`},
		{"GET /api/v1/audit?to=yesterday", "", 422, `query.to`},
		{"GET /api/v1/audit?page_token=x", "", 400, `"code":"invalid"`},
		{"GET /api/v1/whoami", "", 200, `"role":"admin"`},
	} {
		if got := w.do(tt.request, admin, tt.body); got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s %.60s: %d %.300s", tt.request, tt.body, got.status, got.body)
		}
	}
	if made := w.do("POST /api/v1/tokens", admin, `{"name":"x","role":"read"}`); made.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the answer may be kept: %v", made.header)
	}
	if list := w.do("GET /api/v1/tokens", admin, ""); strings.Contains(list.body, "secret") || strings.Contains(list.body, "hash") {
		t.Errorf("the list tells secrets: %s", list.body)
	}
}

// TestSecretsAreNotKeptWithAnswers: an answer that is kept for a second request would keep
// the secret with it.
func TestSecretsAreNotKeptWithAnswers(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.s.URL+"/api/v1/tokens", strings.NewReader(`{"name":"x","role":"read"}`))
	check.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+w.token(auth.Admin))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "once")
	resp, err := w.s.Client().Do(req)
	check.OK(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(data), "Idempotency-Key") {
		t.Errorf("%d %s, %v", resp.StatusCode, data, err)
	}
	kept, err := w.store.List(t.Context(), store.Query{Kind: "idempotency"})
	check.OK(t, err)
	for _, rec := range kept.Records {
		if strings.Contains(string(rec.Body), "abide_") {
			t.Errorf("kept %s", rec.Body)
		}
	}
}

// TestTokenRoutesAreForAdmins: nobody else gets through.
func TestTokenRoutesAreForAdmins(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	admin, operate, read := w.token(auth.Admin), w.token(auth.Operate), w.token(auth.Read)
	shop := w.token(auth.Admin, "shop")
	routes := []string{"POST /api/v1/tokens", "GET /api/v1/tokens", "DELETE /api/v1/tokens/abcdefghijklmnop", "GET /api/v1/audit", "GET /api/v1/audit?tenant=other"}
	for _, request := range routes {
		body := ""
		if strings.HasPrefix(request, "POST") {
			body = `{"name":"x","role":"read"}`
		}
		for token, want := range map[string]int{"": 401, "x": 401, read[:40]: 401, read: 403, operate: 403} {
			if got := w.do(request, token, body); got.status != want {
				t.Errorf("%s with %.10q: %d %s", request, token, got.status, got.body)
			}
		}
		if got := w.do(request, admin, body); got.status >= 300 && got.status != 404 {
			t.Errorf("%s as an admin: %d %s", request, got.status, got.body)
		}
	}
	for request, want := range map[string]int{
		`POST /api/v1/tokens {"name":"x","role":"read"}`:                            403,
		`POST /api/v1/tokens {"name":"x","role":"read","tenants":["shop","other"]}`: 403,
		`POST /api/v1/tokens {"name":"x","role":"admin","tenants":["shop"]}`:        201,
		`GET /api/v1/audit?tenant=other`:                                            403,
		`GET /api/v1/audit?tenant=shop`:                                             200,
	} {
		method, path, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(path, " ")
		if got := w.do(method+" "+path, shop, body); got.status != want {
			t.Errorf("%s of one tenant: %d %s", request, got.status, got.body)
		}
	}
	for token, want := range map[string]string{read: `"role":"read"`, operate: `"role":"operate"`, shop: `"tenants":["shop"]`} {
		if got := w.do("GET /api/v1/whoami", token, ""); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("whoami: %d %s", got.status, got.body)
		}
	}
}

// TestTokensFromAfar: the client does all of it.
func TestTokensFromAfar(t *testing.T) {
	t.Parallel()
	w := newTokenWorld(t)
	ctx := t.Context()
	far := w.client(w.token(auth.Admin)).Tokens()
	at := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	made, err := far.Create(ctx, api.NewToken{Name: "the shop", Role: "operate", Tenants: []string{"a", "b"}, ExpiresAt: at, Rate: 100})
	check.OK(t, err)
	if made.Name != "the shop" || made.Role != "operate" || !slices.Equal(made.Tenants, []string{"a", "b"}) || !made.ExpiresAt.Equal(at) || made.Rate != 100 ||
		made.CreatedAt.IsZero() || made.CreatedBy == "" || made.Secret == "" {
		t.Errorf("made %+v", made)
	}
	shop := w.client(made.Secret)
	who, err := shop.Whoami(ctx)
	if err != nil || who.Subject != made.ID || who.Kind != "token" || who.Role != "operate" || !slices.Equal(who.Tenants, []string{"a", "b"}) {
		t.Errorf("whoami: %+v, %v", who, err)
	}
	list, err := far.List(ctx, remote.TokenFilter{Limit: 1})
	if err != nil || len(list.Tokens) != 1 || list.Tokens[0].ID != made.ID || list.Tokens[0].UsedAt.IsZero() || list.NextPageToken == "" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if list, err = far.List(ctx, remote.TokenFilter{Limit: 1, Cursor: list.NextPageToken}); err != nil || len(list.Tokens) != 1 || list.Tokens[0].ID == made.ID {
		t.Errorf("next page: %+v, %v", list, err)
	}
	if _, err := shop.Tokens().List(ctx, remote.TokenFilter{}); problemCode(err) != api.CodeForbidden {
		t.Errorf("as an operator: %v", err)
	}
	check.OK(t, far.Revoke(ctx, made.ID))
	if _, err := shop.Whoami(ctx); problemCode(err) != api.CodeUnauthenticated {
		t.Errorf("after it was revoked: %v", err)
	}
	for _, id := range []string{made.ID, "a/b", ".."} {
		if err := far.Revoke(ctx, id); problemCode(err) != api.CodeNotFound {
			t.Errorf("revoke %q: %v", id, err)
		}
	}
	log, err := far.Audit(ctx, remote.AuditQuery{Operation: "revoke-token", Subject: made.CreatedBy, Limit: 2, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil || len(log.Entries) != 2 || log.NextPageToken == "" || log.Entries[0].Operation != "revoke-token" || log.Entries[0].Status != 404 {
		t.Errorf("audit: %+v, %v", log, err)
	}
	if log, err = far.Audit(ctx, remote.AuditQuery{Tenant: "nobody"}); err != nil || len(log.Entries) != 0 {
		t.Errorf("audit of nobody: %+v, %v", log, err)
	}
}

// problemCode returns the code of a problem that a server has answered with.
func problemCode(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Code
	}
	return fmt.Sprint(err)
}
