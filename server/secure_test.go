package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// rootContext is that of an identity that may do everything.
func rootContext(t *testing.T) context.Context {
	t.Helper()
	return auth.With(t.Context(), auth.Identity{Kind: auth.Local, Subject: "root", Name: "root", Role: auth.Admin})
}

// kept returns how many answers are kept for second requests.
func (w *whole) kept() int {
	w.t.Helper()
	n, err := w.store.Count(w.t.Context(), store.Query{Kind: "idempotency"}, 100)
	check.OK(w.t, err)
	return n
}

// TestAnswersAreKeptOfOperationsAlone: who may not make a request, or asks for what there is
// not, writes nothing to the store.
func TestAnswersAreKeptOfOperationsAlone(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	const start = "POST /api/v1/instances Idempotency-Key:a"
	for _, tt := range []struct {
		who, request, body string
		status             int
		code               string
	}{
		{"reader", "POST /api/v1/nonexistent Idempotency-Key:a", `{}`, http.StatusNotFound, "not_found"},
		{"operator", "POST /api/v1/nonexistent Idempotency-Key:a", `{}`, http.StatusNotFound, "not_found"},
		{"operator", "POST /api/v1/nonexistent Idempotency-Key:a", `{"other":1}`, http.StatusNotFound, "not_found"},
		{"reader", start, `{"orchestration":"idle"}`, http.StatusForbidden, "forbidden"},
		{"reader", start, strings.Repeat("x", 5<<20), http.StatusForbidden, "forbidden"},
		{"nobody", start, `{}`, http.StatusUnauthorized, "unauthenticated"},
		{"operator", start, strings.Repeat("x", 5<<20), http.StatusRequestEntityTooLarge, "too_large"},
		{"operator", "POST /api/v1/actions Idempotency-Key:a", strings.Repeat("x", 1<<20+1), http.StatusRequestEntityTooLarge, "too_large"},
	} {
		if got := w.do(tt.who, tt.request, tt.body); got.status != tt.status || got.object["code"] != tt.code {
			t.Errorf("%s %s: %d %.200s", tt.who, tt.request, got.status, got.body)
		}
	}
	check.Equal(t, "answers are kept", w.kept(), 0)
	if got := w.do("operator", start, `{"orchestration":"idle"}`); got.status != http.StatusCreated || w.kept() != 1 {
		t.Errorf("%d %s, and %d answers are kept", got.status, got.body, w.kept())
	}
}

// TestIdempotencyKeysOfACaller are limited, at the edge of the limit, and an old key is still
// answered.
func TestIdempotencyKeysOfACaller(t *testing.T) {
	t.Parallel()
	w := newWhole(t, func(c *server.Config) { c.IdempotencyKeys = 3 })
	start := func(who, key string) answer {
		return w.do(who, "POST /api/v1/instances Idempotency-Key:"+key, `{"orchestration":"idle"}`)
	}
	for _, key := range []string{"a", "b", "c", "a"} {
		if got := start("operator", key); got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", key, got.status, got.body)
		}
	}
	got := start("operator", "d")
	if got.status != http.StatusTooManyRequests || got.object["code"] != "quota_exceeded" || got.header.Get("Retry-After") == "" {
		t.Errorf("one more than 3: %d %v %s", got.status, got.header, got.body)
	}
	if got := start("operator", "b"); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a key that was used before: %d %s", got.status, got.body)
	}
	if got := start("admin", "d"); got.status != http.StatusCreated {
		t.Errorf("another caller: %d %s", got.status, got.body)
	}
	check.Equal(t, "answers are kept", w.kept(), 4)
}

// TestStreamsAreCounted by caller, address, tenant and server.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	s := newWhole(t).server
	// fill takes as many streams as there are, up to most, each from its own caller or address.
	fill := func(name string, most, status int, who func(i int) auth.Identity, remote func(i int) string) {
		t.Helper()
		var leaves []func()
		for i := range most {
			leave, refused := s.Enter(who(i), remote(i))
			if refused != 0 {
				t.Fatalf("%s: stream %d of %d is refused with %d", name, i+1, most, refused)
			}
			leaves = append(leaves, leave)
		}
		if _, refused := s.Enter(who(most), remote(most)); refused != status {
			t.Errorf("%s: one more than %d: status %d, want %d", name, most, refused, status)
		}
		for _, leave := range leaves {
			leave()
		}
		leave, refused := s.Enter(who(0), remote(0))
		if refused != 0 {
			t.Fatalf("%s: after all have left: %d", name, refused)
		}
		leave()
	}
	each := func(i int) string { return "10.0." + string(rune('a'+i%26)) + "." + time.Duration(i).String() }
	caller := func(tenants ...string) func(int) auth.Identity {
		return func(i int) auth.Identity {
			return auth.Identity{Kind: auth.ByToken, Subject: time.Duration(i).String(), Role: auth.Read, Tenants: tenants}
		}
	}
	one := func(int) auth.Identity { return auth.Identity{Kind: auth.ByToken, Subject: "one", Role: auth.Read} }
	fill("caller", server.MaxStreamsOfCaller, http.StatusTooManyRequests, one, each)
	fill("address", server.MaxStreamsOfAddress, http.StatusTooManyRequests, caller(), func(int) string { return "192.0.2.1" })
	fill("tenant", server.MaxStreamsOfTenant, http.StatusTooManyRequests, caller("acme", "other"), each)
	fill("server", server.MaxStreams, http.StatusServiceUnavailable, caller(), each)
}

// TestStreamsEndWithTheirToken: within half a minute after it was revoked, those of the page
// included, and with the life of a stream.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		defer st.Close()
		log := rig.Quiet
		e, err := abide.New(st, abide.Config{Register: []abide.Definition{idle}, Logger: log})
		check.OK(t, err)
		defer e.Close()
		guard, err := auth.New(auth.Config{Store: st, Logger: log})
		check.OK(t, err)
		s, err := server.New(server.Config{Store: st, Engine: e, Auth: guard, Logger: log, Page: true})
		check.OK(t, err)
		var open [2]atomic.Int64
		ids := [2]string{}
		for i := range open {
			made, secret, err := guard.CreateToken(rootContext(t), auth.NewToken{Name: "x", Role: auth.Read})
			check.OK(t, err)
			ids[i] = made.ID
			for _, path := range []string{"/api/v1/instances/stream", "/live?kinds=instances"} {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
				req.Header.Set("Authorization", "Bearer "+secret)
				open[i].Add(1)
				go func() {
					defer open[i].Add(-1)
					w := httptest.NewRecorder()
					s.ServeHTTP(w, req)
					if w.Code != http.StatusOK {
						t.Errorf("%s: %d %s", path, w.Code, w.Body)
					}
				}()
			}
		}
		want := func(first, second int64) {
			t.Helper()
			synctest.Wait()
			if open[0].Load() != first || open[1].Load() != second {
				t.Errorf("%d and %d streams are open, want %d and %d", open[0].Load(), open[1].Load(), first, second)
			}
		}
		<-time.After(5 * time.Minute)
		want(2, 2)
		check.OK(t, guard.RevokeToken(rootContext(t), ids[0]))
		<-time.After(30 * time.Second)
		want(0, 2)
		<-time.After(5 * time.Minute)
		want(0, 0)
		s.Drain()
	})
}

// TestAuditLogSaysWhatWasDone: to which thing, with what rights, and with the real status.
func TestAuditLogSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	made := w.do("admin", "POST /api/v1/tokens X-Request-Id:token", `{"name":"back door","role":"admin","tenants":["acme"]}`)
	w.do("operator", "POST /api/v1/operations X-Request-Id:operation", `{"kind":"terminate","all":true,"filter":{"orchestrations":["idle"]},"reason":"cleaning up"}`)
	w.do("operator", "POST /api/v1/instances X-Request-Id:start", `{"tenant":"acme","orchestration":"idle","input":{"card":"4711"}}`)
	w.do("operator", "POST /api/v1/instances/acme/x/cancel?reason=too+late X-Request-Id:cancel", "")
	w.do("operator", "PUT /api/v1/timers/acme/k X-Request-Id:timer", `{"delay":"1h","payload":{"card":"4711"}}`)
	w.do("operator", "POST /api/v1/timers/acme/k/redeliver X-Request-Id:redeliver", `{"sink":"local"}`)
	w.do("operator", "POST /api/v1/instances X-Request-Id:wrong", `{"orchestration":17}`)
	w.do("operator", "GET /api/v1/tokens X-Request-Id:peek", "")
	w.do("acme", "POST /api/v1/instances/other/x/cancel X-Request-Id:foreign", "")
	w.do("acme", "POST /api/v1/operations/none/cancel X-Request-Id:own", "")
	w.do("unknown", "GET /api/v1/instances X-Request-Id:unknown", "")
	w.do("admin", "GET /api/v1/audit X-Request-Id:look", "")
	w.do("reader", "POST /instances/acme/x/cancel X-Request-Id:page", "")
	page, err := w.guard.Audit(rootContext(t), auth.AuditQuery{})
	check.OK(t, err)
	found := map[string]auth.Entry{}
	for _, e := range page.Entries {
		if strings.Contains(e.Detail, "4711") {
			t.Errorf("a payload is in the log: %+v", e)
		}
		found[e.RequestID] = e
	}
	if got := found["own"]; got.Tenant != "acme" || got.Operation != "cancel-operation" {
		t.Errorf("an operation of the caller's only tenant is noted as %+v", got)
	}
	id, _ := made.object["id"].(string)
	for request, want := range map[string]struct {
		operation string
		status    int
		says      []string
	}{
		"token":     {"create-token", http.StatusCreated, []string{id, `"role":"admin"`, `"acme"`, "back door"}},
		"operation": {"start-operation", http.StatusAccepted, []string{"terminate", `"all":true`, "cleaning up", "idle"}},
		"start":     {"start-instance", http.StatusCreated, []string{"idle", `"made":"`}},
		"cancel":    {"cancel-instance", http.StatusNotFound, []string{"too late"}},
		"timer":     {"schedule-timer", http.StatusCreated, []string{"1h"}},
		"redeliver": {"redeliver-timer", http.StatusConflict, []string{"local"}},
		"wrong":     {"start-instance", http.StatusUnprocessableEntity, nil},
		"peek":      {"list-tokens", http.StatusForbidden, nil},
		"foreign":   {"cancel-instance", http.StatusForbidden, nil},
		"unknown":   {"refused", http.StatusUnauthorized, nil},
		"look":      {"list-audit", http.StatusOK, nil},
		"page":      {"refused", http.StatusForbidden, nil},
	} {
		e, ok := found[request]
		if !ok || e.Operation != want.operation || e.Status != want.status {
			t.Errorf("%s is in the log as %+v, want %s with %d", request, e, want.operation, want.status)
		}
		for _, text := range want.says {
			if !strings.Contains(e.Detail, text) {
				t.Errorf("%s: %s does not say %q", request, e.Detail, text)
			}
		}
	}
	if e := found["foreign"]; e.Name != "acme" || e.Target != "POST /api/v1/instances/other/x/cancel" {
		t.Errorf("who was refused, and what, is in the log as %+v", e)
	}
}

// TestRefusalsInTheAuditLogAreCapped: an address that is refused all the time does not fill
// the store.
func TestRefusalsInTheAuditLogAreCapped(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for range 10 * ratelimit.MaxFailures {
		w.do("nobody", "GET /api/v1/instances X-Forwarded-For:192.0.2.1", "")
	}
	w.do("nobody", "GET /api/v1/instances X-Forwarded-For:192.0.2.2", "")
	page, err := w.guard.Audit(rootContext(t), auth.AuditQuery{Limit: 1000})
	check.OK(t, err)
	count := map[string]int{}
	for _, e := range page.Entries {
		count[e.Remote]++
	}
	if n := count["192.0.2.1"]; n < 20 || n > 40 || count["192.0.2.2"] != 1 {
		t.Errorf("entries by address: %v", count)
	}
}

// brokenAudit is a store that does not take entries of the audit log.
type brokenAudit struct {
	store.Store
	broken atomic.Bool
}

func (b *brokenAudit) Commit(ctx context.Context, tx *store.Tx) error {
	for i := range tx.Append {
		if b.broken.Load() && tx.Append[i].Key.Queue == "audit" {
			return errors.New("disk full")
		}
	}
	return b.Store.Commit(ctx, tx)
}

// TestAuditThatIsRequired: without an entry nothing is changed, over the API and on the page.
// Where it is not required, the change is made and the log of the server says so.
func TestAuditThatIsRequired(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{true, false} {
		var broken *brokenAudit
		w := newWhole(t, func(c *server.Config) {
			broken = &brokenAudit{Store: c.Store}
			var err error
			c.Auth, err = auth.New(auth.Config{Store: broken, Logger: c.Logger, AuditRequired: required})
			check.OK(t, err)
		})
		if got := w.do("operator", "POST /api/v1/instances X-Request-Id:first", `{"tenant":"acme","orchestration":"idle","id":"one"}`); got.status != http.StatusCreated {
			t.Fatalf("%d %s", got.status, got.body)
		}
		page, err := w.guard.Audit(rootContext(t), auth.AuditQuery{Operation: "start-instance:intent"})
		if err != nil || required != (len(page.Entries) == 1 && page.Entries[0].RequestID == "first" && page.Entries[0].Status == 0) {
			t.Errorf("required %v: intents %+v, %v", required, page.Entries, err)
		}
		broken.broken.Store(true)
		api := w.do("operator", "POST /api/v1/instances", `{"tenant":"acme","orchestration":"idle","id":"two"}`)
		form := w.do("operator", "POST /instances/acme/one/terminate", "")
		list, err := w.engine.List(t.Context(), abide.Filter{})
		check.OK(t, err)
		if required && (api.status != http.StatusServiceUnavailable || form.status != http.StatusServiceUnavailable || len(list.Instances) != 1) {
			t.Errorf("required: %d, %d, and there are %d instances", api.status, form.status, len(list.Instances))
		}
		if !required && (api.status != http.StatusCreated || len(list.Instances) != 2 || !strings.Contains(w.logged.String(), "audit entry lost")) {
			t.Errorf("not required: %d, %d instances, and the log is\n%s", api.status, len(list.Instances), w.logged)
		}
	}
}

// login opens a session, and returns its cookie as a header.
func (w *whole) login(who string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+"/auth/login", strings.NewReader("token="+w.tokens[who]))
	check.OK(w.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(req)
	check.OK(w.t, err)
	defer resp.Body.Close()
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if resp.StatusCode != http.StatusSeeOther || cookie == "" {
		w.t.Fatalf("log in: %d", resp.StatusCode)
	}
	return "Cookie:" + cookie
}

// TestSessionsCanBeEnded by an admin, one by one and by subject.
func TestSessionsCanBeEnded(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	status := func(cookie string) int { return w.do("nobody", "GET /api/v1/whoami "+cookie, "").status }
	first, second, other := w.login("reader"), w.login("reader"), w.login("operator")
	list := w.do("admin", "GET /api/v1/sessions", "")
	sessions, _ := list.object["sessions"].([]any)
	if list.status != http.StatusOK || len(sessions) != 3 {
		t.Fatalf("%d %s", list.status, list.body)
	}
	var id, subject string
	for _, one := range sessions {
		s := one.(map[string]any)
		if strings.Contains(first+second+other, s["id"].(string)) {
			t.Error("the list shows the secret of a session")
		}
		if s["name"] == "reader" {
			id, subject = s["id"].(string), s["subject"].(string)
		}
	}
	if got := w.do("acme", "GET /api/v1/sessions", ""); got.status != http.StatusOK || strings.Contains(got.body, "reader") {
		t.Errorf("an admin of a tenant sees sessions of all: %s", got.body)
	}
	if got := w.do("acme", "DELETE /api/v1/sessions/"+id, ""); got.status != http.StatusNotFound {
		t.Errorf("an admin of a tenant ends a session of all: %d", got.status)
	}
	if got := w.do("admin", "DELETE /api/v1/sessions/"+id, ""); got.status != http.StatusNoContent {
		t.Errorf("end a session: %d %s", got.status, got.body)
	}
	if a, b := status(first), status(second); a+b != http.StatusOK+http.StatusUnauthorized {
		t.Errorf("after one of two has ended: %d and %d", a, b)
	}
	if got := w.do("admin", "DELETE /api/v1/sessions?subject="+subject, ""); got.status != http.StatusOK || got.object["revoked"] != 1.0 {
		t.Errorf("end those of a subject: %d %s", got.status, got.body)
	}
	if a, b, c := status(first), status(second), status(other); a != http.StatusUnauthorized || b != a || c != http.StatusOK {
		t.Errorf("after those of a subject have ended: %d, %d and %d", a, b, c)
	}
	for request, want := range map[string]int{
		"DELETE /api/v1/sessions":          http.StatusUnprocessableEntity,
		"DELETE /api/v1/sessions/x":        http.StatusNotFound,
		"DELETE /api/v1/sessions?subject=": http.StatusUnprocessableEntity,
	} {
		if got := w.do("admin", request, ""); got.status != want {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
}
