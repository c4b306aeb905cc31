package auth

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a store in memory, with a clock that stands still, and guards on it.
type fixture struct {
	t     *testing.T
	clock *base.Manual
	store store.Store
	log   *rig.Log
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{t: t, clock: base.NewManual(noon), log: &rig.Log{}}
	r.store = memstore.New(memstore.Options{Clock: r.clock})
	t.Cleanup(func() { _ = r.store.Close() })
	return r
}

// guard returns another guard on the same store, as another process has it.
func (r *fixture) guard(cfg Config) *Guard {
	r.t.Helper()
	if cfg.Store == nil {
		cfg.Store = r.store
	}
	cfg.Clock = r.clock
	cfg.Logger = r.log.Logger(slog.LevelDebug)
	g, err := New(cfg)
	check.OK(r.t, err)
	return g
}

// people has a guard take sessions that were opened at a provider.
func people(g *Guard) *Guard {
	g.provider = &provider{}
	return g
}

// as returns the context of an identity with a role, for some tenants or all.
func (r *fixture) as(role Role, tenants ...string) context.Context {
	return With(r.t.Context(), Identity{Kind: Local, Subject: "tester", Name: "tester", Role: role, Tenants: tenants})
}

// token makes a token.
func (r *fixture) token(g *Guard, n NewToken) (Token, string) {
	r.t.Helper()
	if n.Name == "" {
		n.Name = "a service"
	}
	if n.Role == "" {
		n.Role = Read
	}
	t, secret, err := g.CreateToken(r.as(Admin), n)
	check.OK(r.t, err)
	return t, secret
}

// request returns a request with headers, each written as "Name: value".
func request(method, target string, headers ...string) *http.Request {
	req := httptest.NewRequestWithContext(context.Background(), method, target, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	return req
}

// with returns a request with a token.
func with(token string) *http.Request {
	return request(http.MethodGet, "/", "Authorization: Bearer "+token)
}

// everything returns all that is stored: no secret must be in there.
func (r *fixture) everything() string {
	r.t.Helper()
	var out strings.Builder
	for _, kind := range []string{kindToken, kindSession, kindLogin, kindAudit} {
		page, err := r.store.List(r.t.Context(), store.Query{Kind: kind, Limit: store.MaxPage})
		check.OK(r.t, err)
		for _, rec := range page.Records {
			out.WriteString(rec.Key.String() + rec.Name + string(rec.Body))
			for data, err := range store.Entries(r.t.Context(), r.store, auditKey(rec.Key.ID), 0) {
				check.OK(r.t, err)
				out.Write(data)
			}
		}
	}
	return out.String()
}

// body returns all of an answer.
func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(t, err)
	return string(data)
}
