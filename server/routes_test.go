package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

// A plan with all fields, in the form in which it comes back.
const fullPlan = `{"id":"full","slug":"billing","target":"none","every":"15m0s","gap":"skip","fold":"both","jitter":"1m0s",` +
	`"overlap":"queue","catch_up":"all","window":"2h0m0s","cap":7,"from":"2098-01-01T00:00:00Z","until":"2099-01-01T00:00:00Z","count":9,` +
	`"payload":{"a":[1,2]},"idempotent":true,"tenant":"other"}`

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, transport)
			w.seed()
			delivery := ""
			page, err := w.actions.List(t.Context(), action.Filter{Tenant: "default"})
			check.OK(t, err)
			for _, a := range page.Actions {
				if a.Trigger.Kind == action.Webhook {
					delivery = a.ID
				}
			}
			for _, tt := range []struct {
				request, body string
				status        int
				want          string // in the body
			}{
				{"POST /api/v1/actions", `{"id":"x","slug":"billing","target":"none","delay":"10m","payload":{"k":"v"},"idempotent":true}`, 201, `"payload":{"k":"v"}`},
				{"POST /api/v1/actions", `{"id":"x","slug":"other","target":"none"}`, 200, `"slug":"billing"`},
				{"POST /api/v1/actions", `{"slug":"billing","target":"none","delay":"90"}`, 201, `"tenant":"default"`},
				{"GET /api/v1/actions", "", 200, `"actions":[`},
				{"GET /api/v1/actions?slug=billing&status=failed,completed&latest=true&tenant=default", "", 200, `"id":"bad"`},
				{"GET /api/v1/actions?from=2098-12-31T00:00:00Z&to=2099-01-02T00:00:00Z", "", 200, `"id":"later"`},
				{"GET /api/v1/actions?page_size=1", "", 200, `"next_page_token":`},
				{"GET /api/v1/actions?tenant=nobody", "", 200, `{"actions":[]}`},
				{"GET /api/v1/actions/default/bad", "", 200, `"exit_code":3`},
				{"GET /api/v1/actions/default/" + delivery + "/body", "", 200, "\x00\xffraw"},
				{"POST /api/v1/actions/default/bad/retry", "", 200, `"status":"pending"`},
				{"POST /api/v1/actions/default/bad/cancel?reason=not+now", "", 200, `"reason":"not now"`},
				{"POST /api/v1/schedules", fullPlan, 201, `"cap":7`},
				{"GET /api/v1/schedules", "", 200, `"id":"full"`},
				{"GET /api/v1/schedules?tenant=default&page_size=5", "", 200, `"id":"nightly"`},
				{"GET /api/v1/schedules/other/full", "", 200, strings.TrimSuffix(strings.TrimPrefix(fullPlan, `{"id":"full",`), `,"tenant":"other"}`)[:40]},
				{"GET /api/v1/schedules/default/nightly", "", 200, `T02:30:00+0`},
				{"PUT /api/v1/schedules/default/nightly If-Match:\"1\"", `{"id":"nightly","slug":"billing","target":"none","every":"1h"}`, 200, `"every":"1h0m0s"`},
				{"POST /api/v1/schedules/default/nightly/pause?reason=repairs", "", 200, `"reason":"repairs"`},
				{"POST /api/v1/schedules/default/nightly/resume", "", 200, `"status":"active"`},
				{"POST /api/v1/schedules/default/nightly/trigger", "", 201, `"schedule":"nightly"`},
				{"POST /api/v1/schedules/default/nightly/backfill?from=2026-01-01T00:00:00Z&to=2026-01-01T03:00:00Z", "", 201, `"run_at":"2026-01-01T`},
				{"DELETE /api/v1/schedules/default/nightly", "", 204, ""},
			} {
				got := w.do(tt.request, tt.body)
				if got.status != tt.status || !strings.Contains(got.body, tt.want) {
					t.Errorf("%s %s:\n%d %s\nwant %d with %s", tt.request, tt.body, got.status, got.body, tt.status, tt.want)
				}
			}
			if got := w.do("GET /api/v1/schedules/default/nightly", ""); got.status != http.StatusNotFound {
				t.Errorf("the schedule that was removed: %d", got.status)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, transport)
			w.seed()
			large := `{"slug":"x","target":"none","payload":"` + strings.Repeat("x", 2<<20) + `"}`
			for _, tt := range []struct {
				request, body string
				status        int
				code          string
				want          string // in the body
			}{
				{"GET /api/v1/actions/default/none", "", 404, "not_found", "default/none"},
				{"GET /api/v1/actions/default/none/body", "", 404, "not_found", "default/none"},
				{"GET /api/v1/actions/default/bad/body", "", 404, "not_found", "default/bad"},
				{"POST /api/v1/actions/default/none/cancel", "", 404, "not_found", "default/none"},
				{"POST /api/v1/actions/default/none/retry", "", 404, "not_found", "default/none"},
				{"POST /api/v1/actions/default/bad/cancel", "", 409, "wrong_state", "it is failed since"},
				{"POST /api/v1/actions/default/later/retry", "", 409, "wrong_state", "it is pending"},
				{"POST /api/v1/actions", `{"slug":"-rf","target":"none"}`, 400, "invalid", "slug"},
				{"POST /api/v1/actions", `{"slug":"x","target":"none","at":"2099-01-01T00:00:00Z","delay":"1m"}`, 400, "invalid", "only one is allowed"},
				{"POST /api/v1/actions", `{"target":"none"}`, 422, "invalid", "body"},
				{"POST /api/v1/actions", `{"slug":"x","target":"none","dlay":"1m"}`, 422, "invalid", "dlay"},
				{"POST /api/v1/actions", `{"slug":"x","target":"none","delay":"soon"}`, 422, "invalid", "soon"},
				{"POST /api/v1/actions", `{"slug":`, 400, "invalid", ""},
				{"POST /api/v1/actions", "", 400, "invalid", "body"},
				{"POST /api/v1/actions", large, 413, "too_large", ""},
				{"GET /api/v1/actions?page_size=0", "", 422, "invalid", "page_size"},
				{"GET /api/v1/actions?page_size=1001", "", 422, "invalid", "page_size"},
				{"GET /api/v1/actions?status=done", "", 422, "invalid", "status"},
				{"GET /api/v1/actions?from=yesterday", "", 422, "invalid", "from"},
				{"GET /api/v1/actions?slgu=x", "", 422, "invalid", "slgu"},
				{"GET /api/v1/actions?page_token=forged", "", 400, "invalid", ""},
				{"GET /api/v1/schedules?page_token=forged", "", 400, "invalid", ""},
				{"POST /api/v1/schedules", `{"id":"nightly","slug":"x","target":"none","every":"1h"}`, 409, "already_exists", "default/nightly"},
				{"POST /api/v1/schedules", `{"id":"n","slug":"x","target":"none","cron":"61 * * * *"}`, 400, "invalid", "minute"},
				{"POST /api/v1/schedules", `{"id":"n","slug":"x","target":"none","cron":"0 * * * *","zone":"Mars/Olympus"}`, 400, "invalid", "Mars/Olympus"},
				{"POST /api/v1/schedules", `{"id":"n","slug":"x","target":"none"}`, 400, "invalid", "neither"},
				{"POST /api/v1/schedules", `{"id":"n","slug":"x","target":"none","every":"1h","gap":"jump"}`, 422, "invalid", "gap"},
				{"GET /api/v1/schedules/default/none", "", 404, "not_found", "default/none"},
				{"PUT /api/v1/schedules/default/none", `{"id":"none","slug":"x","target":"none","every":"1h"}`, 404, "not_found", "default/none"},
				{"PUT /api/v1/schedules/default/nightly If-Match:\"7\"", `{"id":"nightly","slug":"x","target":"none","every":"1h"}`, 412, "precondition_failed", "expected 7"},
				{"PUT /api/v1/schedules/default/nightly If-Match:seven", `{"id":"nightly","slug":"x","target":"none","every":"1h"}`, 400, "invalid", "If-Match"},
				{"PUT /api/v1/schedules/default/nightly If-Match:\"-1\"", `{"id":"nightly","slug":"x","target":"none","every":"1h"}`, 400, "invalid", "If-Match"},
				{"PUT /api/v1/schedules/default/nightly", `{"id":"nightly","slug":"x","target":"none"}`, 400, "invalid", "neither"},
				{"DELETE /api/v1/schedules/default/none", "", 404, "not_found", "default/none"},
				{"POST /api/v1/schedules/default/none/pause", "", 404, "not_found", "default/none"},
				{"POST /api/v1/schedules/default/none/resume", "", 404, "not_found", "default/none"},
				{"POST /api/v1/schedules/default/none/trigger", "", 404, "not_found", "default/none"},
				{"POST /api/v1/schedules/default/nightly/backfill", "", 422, "invalid", "from"},
				{"POST /api/v1/schedules/default/nightly/backfill?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400, "invalid", "not a range"},
				{"POST /api/v1/schedules/default/nightly/backfill?from=2000-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400, "invalid", "more than 1000"},
				{"GET /api/v2/actions", "", 404, "not_found", "openapi"},
				{"PATCH /api/v1/actions", "", 405, "wrong_method", "POST"},
			} {
				got := w.do(tt.request, tt.body)
				if got.status != tt.status || got.object["code"] != tt.code || !strings.Contains(got.body, tt.want) {
					t.Errorf("%s %.200s:\n%d %.500s\nwant %d %s with %s", tt.request, tt.body, got.status, got.body, tt.status, tt.code, tt.want)
				}
				if got.kind != "application/problem+json" {
					t.Errorf("%s: Content-Type is %s", tt.request, got.kind)
				}
				if got.object["status"] != float64(tt.status) || got.object["title"] == "" || got.object["type"] != "about:blank" {
					t.Errorf("%s: not a problem as RFC 9457 has it: %s", tt.request, got.body)
				}
			}
			if strings.Contains(w.logged.String(), "request failed") {
				t.Errorf("mistakes of clients were logged as those of the server: %s", w.logged)
			}
		})
	}
}

// What nobody expects is in the log, and the client learns no more than that.
func TestInternalErrorsStayInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	key := store.RecordKey{Kind: "action", Tenant: "default", ID: "broken"}
	garbage := store.Record{Key: key, Status: "pending", Name: "secret-slug", Body: []byte("\xff garbage")}
	check.OK(t, w.store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: garbage}}}))
	got := w.do("GET /api/v1/actions/default/broken", "")
	if got.status != http.StatusInternalServerError || got.object["code"] != "internal" || strings.Contains(got.body, "corrupt") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.Contains(w.logged.String(), "corrupt") {
		t.Errorf("the log says %q", w.logged)
	}
}

func TestStoreThatIsClosedIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	check.OK(t, w.store.Close())
	if got := w.do("GET /api/v1/actions", ""); got.status != http.StatusServiceUnavailable || got.object["code"] != "unavailable" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
