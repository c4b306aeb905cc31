package web_test

import (
	"bytes"
	"errors"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/web"
	"github.com/abidehq/abide/timer"
)

// evil is what somebody puts wherever a text can be put.
const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "`" + `{{.}}`

// TestNothingIsTakenForAPage puts hostile texts into every field that takes any, and looks
// at every page.
func TestNothingIsTakenForAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	id := "id " + evil
	tenant := "tenant " + evil
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	for _, name := range []string{"nap", "broken"} {
		request, err := abide.OrchestrationNamed[string, abide.None](name).Prepare(w.engine, evil, abide.ID(name+id), abide.Tenant(tenant), abide.Tag("tag "+evil, evil))
		must(err)
		_, err = w.engine.Start(ctx, request)
		must(err)
	}
	ref := abide.Ref{Tenant: tenant, ID: "nap" + id}
	must(abide.NewEvent[string](evil).Raise(ctx, w.engine, ref.ID, evil, abide.Tenant(tenant)))
	w.eventually(func() bool {
		h, err := w.engine.History(ctx, ref, 0)
		return err == nil && slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.Kind == history.EventReceived })
	})
	must(w.engine.Suspend(ctx, ref, evil))
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Suspended })
	w.until(abide.Ref{Tenant: tenant, ID: "broken" + id}, func(i abide.Info) bool { return i.Status == abide.Stalled })
	_, err := w.timers.Schedule(ctx, timer.Request{Tenant: tenant, Key: id, DueAt: time.Now().Add(time.Hour), CorrelationID: evil, Payload: []byte(`"<script>alert(1)</script>"`)})
	must(err)
	hook, _, err := w.actions.Receive(ctx, action.Received{Tenant: tenant, Slug: "slug", Target: "target", Header: map[string]string{evil: evil}, Body: []byte(evil)})
	must(err)
	_, err = w.actions.Cancel(ctx, tenant, hook.ID, evil)
	must(err)
	_, err = w.actions.AddSchedule(ctx, action.Plan{Tenant: tenant, ID: "schedule", Slug: "slug", Target: "target", Every: time.Hour})
	must(err)
	_, err = w.actions.Pause(ctx, tenant, "schedule", evil)
	must(err)
	message := w.quarantine(tenant, "key "+evil, "reason "+evil, []byte(evil))
	w.done("/instances/matching", "kind", "cancel", "tenant", tenant, "reason", evil, "counted", "2", "confirm", "2")
	w.who.Name = evil

	paths := append([]string{}, listPages...)
	for _, p := range []string{"/instances", "/timers", "/actions", "/sinks", "/quarantine", "/operations"} {
		paths = append(paths, p+"?tenant="+urlEscape(evil)+"&status="+urlEscape(evil)+"&slug="+urlEscape(evil)+"&prefix="+urlEscape(evil)+
			"&correlation="+urlEscape(evil)+"&orchestration="+urlEscape(evil)+"&tag="+urlEscape(evil)+"&from="+urlEscape(evil)+"&id="+urlEscape(evil)+"&done="+urlEscape(evil))
	}
	one := []string{
		"/instances/" + urlSegment(tenant) + "/" + urlSegment("nap"+id), "/instances/" + urlSegment(tenant) + "/" + urlSegment("broken"+id),
		"/timers/" + urlSegment(tenant) + "/" + urlSegment(id), "/actions/" + urlSegment(tenant) + "/" + hook.ID,
		"/schedules/" + urlSegment(tenant) + "/schedule", "/quarantine/" + urlSegment(tenant) + "/" + urlSegment(message),
		link(t, w.see("/operations"), "cancel"),
	}
	paths = append(paths, one...)
	for i, verbs := range map[int][]string{0: {"raise", "fork", "move", "cancel"}, 2: {"move", "snooze", "cancel"}, 4: {"edit", "pause"}, 5: {"redrive"}} {
		for _, v := range verbs {
			paths = append(paths, one[i]+"/"+v+"?name="+urlEscape(evil)+"&new="+urlEscape(evil)+"&at="+urlEscape(evil)+"&timer="+urlEscape(evil)+"&event="+urlEscape(evil))
		}
	}
	paths = append(paths, "/instances/new?orchestration="+urlEscape(evil), "/schedules/preview?cron="+urlEscape(evil), "/nowhere/"+urlSegment(evil), "/instances/x/"+urlSegment(evil))
	for _, path := range paths {
		a := w.get(path)
		if a.status >= 500 || a.status == http.StatusSeeOther {
			t.Errorf("GET %s: status %d", path, a.status)
		}
		harmless(t, path, a.body)
	}
	for path, form := range map[string][]string{
		"/instances/new": {"orchestration", evil, "id", evil, "input", evil, "tags", evil, "at", evil}, one[0] + "/raise": {"name", evil, "data", evil},
		one[2] + "/move": {"at", evil}, "/schedules/new": {"id", evil, "slug", evil, "cron", evil, "gap", evil},
		"/actions/new": {"slug", evil, "target", evil, "payload", evil},
	} {
		a := w.post(path, form...)
		if a.status != http.StatusBadRequest {
			t.Errorf("POST %s: status %d, want 400", path, a.status)
		}
		harmless(t, "POST "+path, a.body)
	}
}

var (
	tagOf   = regexp.MustCompile(`(?i)<(script|img|style|iframe|object|base)\b[^>]*>`)
	handler = regexp.MustCompile(`(?i)<[^>]*\son\w+\s*=`)
)

// harmless fails the test if a page has more scripts than its own, or what comes to that.
func harmless(t *testing.T, where, body string) {
	t.Helper()
	for _, tag := range tagOf.FindAllString(body, -1) {
		if !strings.HasPrefix(tag, `<script src="/static/`) {
			t.Errorf("%s has %s", where, tag)
		}
	}
	for _, tag := range handler.FindAllString(quoted.ReplaceAllString(body, `""`), -1) {
		t.Errorf("%s has %s", where, tag)
	}
	if strings.Contains(body, " style=") || strings.Contains(body, "javascript:") {
		t.Errorf("%s has a style or an address that is a script", where)
	}
	if n := strings.Count(body, "<script"); n != 3 {
		t.Errorf("%s has %d scripts, want 3:\n%s", where, n, body)
	}
}

var quoted = regexp.MustCompile(`"[^"]*"`)

func urlEscape(s string) string { return url.QueryEscape(s) }

func urlSegment(s string) string { return url.PathEscape(s) }

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range append([]string{"/nowhere", "/static/app.css", "/static/nothing.js", "/instances/a/b"}, listPages...) {
		h := w.get(path).header
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q lacks %q", path, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if h := w.get("/").header; h.Get("Cache-Control") != "no-store" {
		t.Errorf("a page may be kept: %v", h)
	}
	style := regexp.MustCompile(`/static/app\.css\?v=\w+`).FindString(w.see("/"))
	if h := w.get(style).header; h.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: headers %v", style, h)
	}
}

func TestNothingChangesByGET(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.start("nap", "nap-1", "", abide.Running)
	before, err := w.engine.Get(t.Context(), ref)
	check.OK(t, err)
	for _, v := range []string{"cancel", "terminate", "suspend", "restart", "rewind", "delete", "resume", "raise", "fork", "move"} {
		w.see("/instances/default/nap-1/" + v + "?name=approved&reason=x&event=2&timer=return-window&at=%2B1s")
	}
	w.see("/instances/new?orchestration=nap&id=nap-2")
	after, err := w.engine.Get(t.Context(), ref)
	if err != nil || after.Revision != before.Revision {
		t.Errorf("revision %d became %d, %v", before.Revision, after.Revision, err)
	}
	if _, err := w.engine.Get(t.Context(), abide.Ref{ID: "nap-2"}); err == nil {
		t.Error("a GET has started an instance")
	}
	if len(w.noted) > 0 {
		t.Errorf("noted %v", w.noted)
	}
	r := httptest.NewRequest(http.MethodPost, "/instances/default/nap-1/terminate", strings.NewReader("reason=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if a := w.do(r); a.status != http.StatusForbidden {
		t.Errorf("a form of another site: status %d", a.status)
	}
	if a := w.post("/instances/new", "orchestration", "nap", "input", strings.Repeat("x", 3<<20)); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of 3 MB: status %d", a.status)
	}
}

// changes are all forms, as somebody of the tenant default sends them.
func changes(w *world) []string {
	w.start("nap", "nap-1", "", abide.Running)
	if _, err := w.timers.Schedule(w.t.Context(), timer.Request{Tenant: "default", Key: "timer-1", Delay: time.Hour}); err != nil {
		w.t.Fatal(err)
	}
	if _, _, err := w.actions.Add(w.t.Context(), action.Request{Tenant: "default", Slug: "s", Target: "t", ID: "action-1"}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.actions.AddSchedule(w.t.Context(), action.Plan{Tenant: "default", ID: "schedule-1", Slug: "s", Target: "t", Every: time.Hour}); err != nil {
		w.t.Fatal(err)
	}
	message := w.quarantine("", "order-1", "attempts", nil)
	operation := strings.TrimSuffix(w.done("/instances/matching", "kind", "resume", "tenant", "default", "counted", "1", "confirm", "1"), "?done=begun")
	list := []string{
		"/instances/new?tenant=default&orchestration=nap", "/instances/selected?kind=cancel&instance=%2Fnap-1", "/instances/matching?tenant=default&kind=cancel",
		"/timers/new?tenant=default&key=k&at=%2B1h", "/actions/new?tenant=default&slug=s&target=t", "/schedules/new?tenant=default&id=x&slug=s&target=t&every=1h",
		"/quarantine/~/" + message + "/redrive", "/quarantine/~/" + message + "/delete", operation + "/cancel",
	}
	for _, v := range []string{"cancel", "terminate", "suspend", "restart", "rewind", "delete", "resume", "raise?name=x", "fork?event=2", "move?timer=return-window&at=%2B1h"} {
		list = append(list, "/instances/default/nap-1/"+v)
	}
	for _, v := range []string{"move?at=%2B1h", "snooze?by=1h", "cancel", "redeliver?sink=billing"} {
		list = append(list, "/timers/default/timer-1/"+v)
	}
	for _, v := range []string{"cancel", "retry"} {
		list = append(list, "/actions/default/action-1/"+v)
	}
	for _, v := range []string{"trigger", "pause", "resume", "backfill?from=-1h&to=-0s", "edit?slug=s&target=t&every=1h", "delete"} {
		list = append(list, "/schedules/default/schedule-1/"+v)
	}
	return list
}

// sent sends a change, whose fields stand in its address, as a form.
func (w *world) sent(change string) answer {
	w.t.Helper()
	path, query, _ := strings.Cut(change, "?")
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(query))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(r)
}

func TestWhoOnlyLooksChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := changes(w)
	w.noted = nil
	w.who = reader
	for _, change := range list {
		if a := w.sent(change); a.status != http.StatusForbidden {
			t.Errorf("POST %s: status %d, want 403", change, a.status)
		}
		if a := w.get(change); a.status != http.StatusForbidden {
			t.Errorf("GET %s: status %d, want 403", change, a.status)
		}
	}
	if len(w.noted) > 0 {
		t.Errorf("noted %v", w.noted)
	}
	pages := append([]string{"/instances/default/nap-1", "/timers/default/timer-1", "/actions/default/action-1", "/schedules/default/schedule-1"}, listPages...)
	for _, path := range pages {
		body := w.see(path)
		w.lacks(body, "data-dialog", `method="post"`, "Fork from here", "With the selected")
		w.contains(body, "You can look, and not change")
	}
}

func TestATenantSeesNothingOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := changes(w)
	w.start("nap", "nap-acme", "acme", abide.Running)
	w.noted = nil
	w.who = acme
	for _, change := range list {
		if a := w.sent(change); a.status != http.StatusForbidden {
			t.Errorf("POST %s: status %d, want 403", change, a.status)
		}
	}
	for _, path := range []string{
		"/instances/default/nap-1", "/instances/default/nap-1/history.json", "/timers/default/timer-1", "/actions/default/action-1", "/actions/default/action-1/body",
		"/schedules/default/schedule-1", "/workers", "/builds", "/instances?tenant=default", "/timers?tenant=default", "/actions?tenant=default", "/schedules?tenant=default",
		"/sinks?tenant=default", "/quarantine?tenant=default", "/operations?tenant=default", "/instances?tenant=default&id=nap-1",
	} {
		if a := w.get(path); a.status != http.StatusForbidden || strings.Contains(a.body, "return-window") {
			t.Errorf("GET %s: status %d, want 403", path, a.status)
		}
	}
	for _, path := range listPages {
		if path == "/workers" || path == "/builds" {
			continue
		}
		w.lacks(w.see(path), "nap-1<", "timer-1", "action-1", "schedule-1", "order-1", ">Workers<", ">Builds<", "1 quarantined")
	}
	w.contains(w.see("/instances"), "nap-acme")
	w.done("/instances/acme/nap-acme/suspend")
	if a := w.get("/instances?id=nap-1"); a.status != http.StatusOK || !strings.Contains(a.body, "There is no instance") {
		t.Errorf("a jump to an instance of another tenant: status %d", a.status)
	}
	w.who = auth.Identity{Role: auth.Admin, Tenants: []string{}}
	if a := w.get("/instances"); a.status != http.StatusForbidden {
		t.Errorf("who has no tenant: status %d", a.status)
	}
	w.who = auth.Identity{}
	for _, path := range append([]string{"/live", "/instances/default/nap-1/history.json"}, listPages...) {
		if a := w.get(path); a.status != http.StatusForbidden {
			t.Errorf("nobody gets %s: status %d, want 403", path, a.status)
		}
	}
}

func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]string{
		"/nowhere": "No such page", "/instances/default/nobody": "Not there", "/timers/default/none": "Not there", "/actions/default/none": "Not there",
		"/schedules/default/none": "Not there", "/quarantine/~/none": "Not there any more", "/operations/default/none": "Not there",
	} {
		a := w.get(path)
		if a.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, a.status)
		}
		w.contains(a.body, want, "request-17", "To the overview")
	}
	check.OK(t, w.store.Close())
	a := w.get("/instances")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(w.log.String(), "request-17") {
		t.Errorf("status %d; log: %s", a.status, w.log.String())
	}
}

func TestPrefixStandsBeforeEveryLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *web.Config) { cfg.Prefix = "/abide" })
	list := changes(w)
	links := regexp.MustCompile(`(?:href|src|action|data-live)="([^"]*)"`)
	for _, path := range append(append([]string{"/instances/default/nap-1", "/timers/default/timer-1", "/nowhere"}, listPages...), list[0]) {
		for _, m := range links.FindAllStringSubmatch(w.get(path).body, -1) {
			if !strings.HasPrefix(m[1], "/abide/") && !strings.HasPrefix(m[1], "#") {
				t.Errorf("%s: %s", path, m[0])
			}
		}
	}
	check.Equal(t, "a form leads to", w.done("/timers/default/timer-1/cancel"), "/abide/timers/default/timer-1?done=cancelled")
	for _, prefix := range []string{"abide", "/abide/", "/"} {
		if _, err := web.New(web.Config{Store: w.store, Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	if _, err := web.New(web.Config{}); err == nil {
		t.Error("a page without a store is accepted")
	}
}

func TestOddNamesHavePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{".", "..", "~", "a/b", "a b?c#d%e", "ümlaut", "new", "selected"} {
		w.start("nap", id, "", abide.Running)
	}
	body := w.see("/instances")
	found := 0
	for _, m := range regexp.MustCompile(`href="(/instances/default/[^"]*)"`).FindAllStringSubmatch(body, -1) {
		w.contains(w.see(m[1]), "return-window")
		found++
	}
	// What is to be copied asks the API, which knows no marks.
	w.contains(w.see("/instances/default/~~"), "/api/v1/instances/default/~&#39;")
	check.Equal(t, "links", found, 8)
}

// A form in parts, which a browser sends with files, is read with any method. No more of it
// is than of others.
func TestLargeFormsInPartsAreNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	check.OK(t, errors.Join(form.WriteField("filler", strings.Repeat("x", 3<<20)), form.WriteField("status", "nonsense"), form.Close()))
	r := httptest.NewRequest(http.MethodGet, "/instances", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	if a := w.do(r); strings.Contains(a.body, "nonsense") {
		t.Errorf("what comes after 3 MB is read: status %d", a.status)
	}
}
