package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

func TestSecondRequestWithTheSameKeyGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	const body = `{"slug":"billing","target":"none","delay":"10m"}`
	first := w.do("POST /api/v1/actions Idempotency-Key:one", body)
	if first.status != http.StatusCreated || first.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	second := w.do("POST /api/v1/actions Idempotency-Key:one", body)
	if second.status != first.status || second.body != first.body || second.kind != first.kind {
		t.Errorf("second answer: %d %s\nfirst: %d %s", second.status, second.body, first.status, first.body)
	}
	if second.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the second answer does not say that it is one")
	}
	if got := w.do("POST /api/v1/actions Idempotency-Key:two", body); got.body == first.body {
		t.Error("another key got the same answer")
	}
	if got := w.do("POST /api/v1/actions Idempotency-Key:one", strings.Replace(body, "10m", "11m", 1)); got.status != http.StatusUnprocessableEntity ||
		got.object["code"] != "idempotency_key_reused" {
		t.Errorf("another body with the key: %d %s", got.status, got.body)
	}
	if got := w.do("POST /api/v1/schedules Idempotency-Key:one", body); got.object["code"] != "idempotency_key_reused" {
		t.Errorf("another path with the key: %d %s", got.status, got.body)
	}
	w.wantActions(2)
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	for _, headers := range []string{
		"Idempotency-Key:",
		"Idempotency-Key:" + strings.Repeat("k", server.MaxIdempotencyKey+1),
		"Idempotency-Key:schlüssel",
		"Idempotency-Key:a Idempotency-Key:b",
	} {
		got := w.do("POST /api/v1/actions "+headers, `{"slug":"billing","target":"none"}`)
		if got.status != http.StatusBadRequest || got.object["code"] != "invalid" || !strings.Contains(got.body, "Idempotency-Key") {
			t.Errorf("%.60s: %d %s", headers, got.status, got.body)
		}
	}
	w.wantActions(0)
	if got := w.do("POST /api/v1/actions Idempotency-Key:"+strings.Repeat("k", server.MaxIdempotencyKey), `{"slug":"billing","target":"none"}`); got.status != http.StatusCreated {
		t.Errorf("the longest key: %d %s", got.status, got.body)
	}
}

// A mistake of the client is an answer like any other; what may go better the next time
// is not kept.
func TestWhichAnswersAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	for range 2 {
		if got := w.do("POST /api/v1/actions Idempotency-Key:bad", `{"slug":"-rf","target":"none"}`); got.status != http.StatusBadRequest {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if n, err := w.store.Count(t.Context(), store.Query{Kind: "idempotency"}, 10); err != nil || n != 1 {
		t.Errorf("%d answers are kept (%v), want 1", n, err)
	}
	// The record of an action that cannot be read is a mistake of the server.
	key := store.RecordKey{Kind: "action", Tenant: "default", ID: "broken"}
	garbage := store.Record{Key: key, Status: "failed", Name: "x", Body: []byte("\xff garbage")}
	check.OK(t, w.store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: garbage}}}))
	if got := w.do("POST /api/v1/actions/default/broken/retry Idempotency-Key:broken", ""); got.status != http.StatusInternalServerError {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n, err := w.store.Count(t.Context(), store.Query{Kind: "idempotency"}, 10); err != nil || n != 1 {
		t.Errorf("%d answers are kept (%v), want 1", n, err)
	}
}

// Many requests with one key at a time make one action, and all that are answered with
// success get the same answer.
func TestRequestsWithOneKeyAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	var group sync.WaitGroup
	answers := make([]answer, 32)
	for i := range answers {
		group.Go(func() {
			answers[i] = w.do("POST /api/v1/actions Idempotency-Key:same", `{"slug":"billing","target":"none","delay":"1h"}`)
		})
	}
	group.Wait()
	made := ""
	for _, a := range answers {
		switch {
		case a.status == http.StatusConflict && a.object["code"] == "under_way":
		case a.status == http.StatusCreated && (made == "" || made == a.body):
			made = a.body
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if made == "" {
		t.Error("nobody was answered")
	}
	w.wantActions(1)
}

// A server that died after it did what was asked, and before it kept the answer, leaves a
// key that is under way. A later request gets the same thing, not a second one.
func TestServerThatDiedBeforeItKeptTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tcp")
	const body = `{"slug":"billing","target":"none","delay":"1h"}`
	first := w.do("POST /api/v1/actions Idempotency-Key:one", body)
	rewind := func(age time.Duration) {
		page, err := w.store.List(t.Context(), store.Query{Kind: "idempotency"})
		if err != nil || len(page.Records) != 1 {
			t.Fatalf("%v %v", page, err)
		}
		r := page.Records[0]
		request, _, _ := strings.Cut(strings.TrimSuffix(string(r.Body), "}"), `,"status"`)
		r.Body, r.Status, r.Time = []byte(request+"}"), "pending", time.Now().Add(-age)
		check.OK(t, w.store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: r, Expect: r.Version}}}))
	}
	rewind(0)
	if got := w.do("POST /api/v1/actions Idempotency-Key:one", body); got.status != http.StatusConflict || got.object["code"] != "under_way" {
		t.Errorf("while it is under way: %d %s", got.status, got.body)
	}
	rewind(2 * time.Minute)
	second := w.do("POST /api/v1/actions Idempotency-Key:one", body)
	if second.status != http.StatusOK || second.object["id"] != first.object["id"] {
		t.Errorf("after a minute: %d %s\nwant the action that was made first: %s", second.status, second.body, first.body)
	}
	w.wantActions(1)
}

// Who is called the same, and is another one or may do other things, is not told what the
// answer was.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	const request, body, key = "POST /api/v1/instances", `{"orchestration":"wait","tenant":"acme"}`, "Idempotency-Key: one"
	first := h.want(http.StatusCreated, request, body, key, who+": operate:acme")
	if again := h.want(http.StatusCreated, request, body, key, who+": operate:acme"); again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same one gets %s, and got %s", again.body, first.body)
	}
	for _, other := range []string{"operate:other", "read:acme"} {
		h.want(http.StatusForbidden, request, body, key, who+": "+other)
	}
}

func (w *world) wantActions(want int) {
	w.t.Helper()
	page, err := w.actions.List(context.WithoutCancel(w.t.Context()), action.Filter{})
	if err != nil || len(page.Actions) != want {
		w.t.Errorf("there are %d actions (%v), want %d", len(page.Actions), err, want)
	}
}
