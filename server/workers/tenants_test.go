package workers_test

import (
	"errors"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store/memstore"
)

// guardedHost is a server with tokens.
func guardedHost(t *testing.T) (h *host, token func(auth.NewToken) func(*abide.Config)) {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	guard, err := auth.New(auth.Config{Store: st, Logger: quiet()})
	check.OK(t, err)
	h = startHost(t, st, func(c *workers.Config) { c.Auth = guard })
	return h, func(n auth.NewToken) func(*abide.Config) {
		t.Helper()
		n.Name, n.Role = "test", auth.Worker
		_, secret, err := guard.CreateToken(auth.With(t.Context(), auth.Identity{Role: auth.Admin}), n)
		check.OK(t, err)
		return func(c *abide.Config) { c.Token = secret }
	}
}

// TestWorkerOfATenant: a worker with a token for tenants is sent the work of these and of no others, and may
// neither start instances of others nor wait for them, whether they exist or not.
func TestWorkerOfATenant(t *testing.T) {
	t.Parallel()
	h, token := guardedHost(t)
	bound := h.work(token(auth.NewToken{Tenants: []string{"acme", abide.DefaultTenant}}), child)
	start := func(c abide.Caller, tenant, id string) error {
		_, err := child.Start(soon(t), c, "a", abide.Tenant(tenant), abide.ID(id), abide.Unchecked())
		return err
	}
	result := func(c abide.Caller, tenant, id string) error {
		_, err := child.Instance(c, id, abide.Tenant(tenant)).Result(soon(t))
		return err
	}

	check.OK(t, start(h.engine, "beta", "b"))
	for _, tenant := range []string{"acme", abide.DefaultTenant} {
		check.OK(t, start(h.engine, tenant, "by the server"))
		check.OK(t, result(h.engine, tenant, "by the server"))
		check.OK(t, start(bound, tenant, "by the worker"))
		check.OK(t, result(bound, tenant, "by the worker"))
	}
	for name, err := range map[string]error{
		"a start":                                start(bound, "beta", "new"),
		"a start of what exists":                 start(bound, "beta", "b"),
		"a wait for what exists":                 result(bound, "beta", "b"),
		"a wait for what does not":               result(bound, "beta", "none"),
		"a wait in a tenant that has never been": result(bound, "gamma", "none"),
	} {
		p, ok := errors.AsType[*api.Problem](err)
		if !ok || p.Code != api.CodeForbidden {
			t.Errorf("%s: the error is %v, want %s", name, err, api.CodeForbidden)
		}
	}

	info, err := h.engine.Get(soon(t), abide.Ref{Tenant: "beta", ID: "b"})
	check.OK(t, err)
	check.Equal(t, "status of an instance of another tenant", info.Status, abide.Pending)
	list, err := h.engine.Workers(soon(t))
	check.OK(t, err)
	check.Equal(t, "tenants of the worker", list[0].Tenants, []string{"default", "acme"})

	h.work(token(auth.NewToken{}), child)
	check.OK(t, result(h.engine, "beta", "b"))
}
