package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/timer"
)

// listPages are the pages of the menu.
var listPages = []string{"/", "/instances", "/timers", "/actions", "/schedules", "/sinks", "/entities", "/quarantine", "/workers", "/builds", "/operations"}

func TestEveryPageIsThereWithoutData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]string{
		"/":                  "Nothing needs a person",
		"/instances":         "No instance yet",
		"/timers":            "No timer is armed",
		"/actions":           "No action yet",
		"/schedules":         "No schedule yet",
		"/schedules/preview": "When would it run?",
		"/sinks":             "Nothing was delivered yet",
		"/quarantine":        "Nothing is in quarantine",
		"/entities":          "There are no such entities",
		"/workers":           "shop",
		"/builds":            "No build pins instances",
		"/operations":        "No operation yet",
	} {
		w.contains(w.see(path), want, "v0.0.0-test", "memory store")
	}
}

func TestOverviewSaysWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("broken", "order-broken", "", abide.Stalled)
	w.quarantine("", "order-1", "attempts", []byte("x"))
	w.start("elsewhere", "order-elsewhere", "")
	body := w.see("/")
	w.contains(body, "1 stalled", "1 quarantined", "1 unserved", "order-broken")
	w.lacks(body, "Nothing needs a person")
	w.contains(w.see("/workers"), "elsewhere", "What nobody serves")
}

// TestWorkerIsDrainedOnThePage: the page of a worker shows what it works on, and drains it.
func TestWorkerIsDrainedOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := link(t, w.see("/workers"), "<strong>shop</strong>")
	w.contains(w.see(page), "serving", "Nothing now", "order", " of ")
	w.contains(w.see(page+"/drain"), "Drain shop?")
	w.done(page + "/drain")
	w.eventually(func() bool { return strings.Contains(w.see("/workers"), "</span> drained</span>") })
	w.lacks(w.see(page), ">Drain<")
	w.start("order", "order-late", "")
	w.contains(w.see("/workers"), "What nobody serves")
}

func TestOverviewShowsWhatComesNextInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, key := range []string{"late-timer", "soon-timer"} {
		if _, err := w.timers.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: key, Delay: time.Duration(3-2*i) * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.actions.AddSchedule(t.Context(), action.Plan{Tenant: "acme", ID: "between", Slug: "s", Target: "t", Every: 2 * time.Hour, From: time.Now().Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	body := w.see("/")
	soon, between, late := strings.Index(body, "soon-timer"), strings.Index(body, "between"), strings.Index(body, "late-timer")
	if soon < 0 || between < soon || late < between {
		t.Errorf("in the order %d, %d, %d", soon, between, late)
	}
}

func TestInstancesAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "", abide.Running)
	w.start("nap", "nap-2", "acme", abide.Running)
	w.start("order", "order-1", "", abide.Running)
	for query, want := range map[string][]string{
		"":                     {"nap-1", "nap-2", "order-1"},
		"?tenant=acme":         {"nap-2"},
		"?tenant=default":      {"nap-1", "order-1"},
		"?orchestration=order": {"order-1"},
		"?status=completed":    nil,
		"?status=running":      {"nap-1", "nap-2", "order-1"},
		"?from=-1h":            {"nap-1", "nap-2", "order-1"},
		"?to=-1h":              nil,
		"?tag=a=b":             nil,
	} {
		body := w.see("/instances" + query)
		for _, id := range []string{"nap-1", "nap-2", "order-1"} {
			found := strings.Contains(body, "/"+id+`"`)
			wanted := false
			for _, one := range want {
				wanted = wanted || one == id
			}
			if found != wanted {
				t.Errorf("%q: %s is there: %v, want %v", query, id, found, wanted)
			}
		}
	}
	w.contains(w.see("/instances?status=odd"), "There is no status odd")
	w.contains(w.see("/instances?from=tomorrowish"), "is no time")
	w.contains(w.see("/instances?tag=x"), "name=value")
	w.contains(w.see("/instances?tag=a:b%3Dc"), "has both : and =")
	to := w.done("/instances/new", "orchestration", "order", "id", "odd", "tags", "a%3Ab=c d:e")
	w.contains(w.see(to), `tag=a%253Ab%3Dc">a:b=c</a>`, `tag=d%3De">d=e</a>`)
	for _, tag := range []string{"a%253Ab%3Dc", "d%3De", "d:e"} { // what the links and people say
		w.contains(w.see("/instances?tag="+tag), "odd")
	}
}

func TestInstancesArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var requests []abide.StartRequest
	for i := range 60 {
		r, err := abide.OrchestrationNamed[abide.None, abide.None]("elsewhere").Prepare(w.engine, abide.None{}, abide.ID("order-"+string(rune('a'+i/26))+string(rune('a'+i%26))), abide.Unchecked())
		check.OK(t, err)
		requests = append(requests, r)
	}
	if _, err := w.engine.Start(t.Context(), requests...); err != nil {
		t.Fatal(err)
	}
	first := w.see("/instances?orchestration=elsewhere")
	check.Equal(t, "the first page has rows", strings.Count(first, `name="instance"`), 50)
	second := w.see(link(t, first, "Next page"))
	check.Equal(t, "the second page has rows", strings.Count(second, `name="instance"`), 10)
	w.contains(second, "First page", `value="elsewhere"`)
	w.lacks(second, "Next page")
}

// link returns where a link with a label leads.
func link(t *testing.T, body, label string) string {
	t.Helper()
	before, _, found := strings.Cut(body, ">"+label+"<")
	if !found {
		t.Fatalf("no link %q:\n%s", label, body)
	}
	before = before[strings.LastIndex(before, `href="`)+len(`href="`):]
	href, _, _ := strings.Cut(before, `"`)
	return strings.ReplaceAll(strings.ReplaceAll(href, "&amp;", "&"), "&#43;", "+")
}

func TestJumpLeadsToAnInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "acme", abide.Running)
	if a := w.get("/instances?id=nap-1&tenant=acme"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/instances/acme/nap-1" {
		t.Errorf("it leads to %q, status %d", a.header.Get("Location"), a.status)
	}
	w.contains(w.see("/instances?id=nap-17"), "There is no instance", "nap-17")
}

func TestOneInstanceFromStartToEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	to := w.done("/instances/new", "orchestration", "order", "id", "order-1", "input", `{"order": 17}`, "tags", "customer=17")
	if to != "/instances/default/order-1?done=started" {
		t.Fatalf("it leads to %s", to)
	}
	ref := abide.Ref{ID: "order-1"}
	w.until(ref, func(i abide.Info) bool { return i.StatusText != "" })
	body := w.see(to)
	w.contains(body, "Started.", "order-1", "waits for approval", "customer=17", `<span class="kind">event</span> <strong>approved</strong>, since`, "Raise event", "Copy as curl",
		"abide instances show order-1 --server http://example.com", "curl http://example.com/api/v1/instances/default/order-1")
	to = w.done("/instances/default/order-1/raise", "name", "approved", "data", `{"by":"an operator"}`)
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Completed })
	body = w.see(to)
	w.contains(body, "completed", "charge-17", "Event approved received", "Activity charge scheduled", "Activity charge completed",
		"Step price completed", "Child parcel started:", "/instances/default/order-1-parcel", "Timeline", "Restart", "Fork from here", "Output", "Value charge set")
	w.lacks(body, "Waits for", "/order-1/cancel")
	w.contains(w.see("/instances/default/order-1-parcel"), "Parent", "/instances/default/order-1")
	raw := w.get("/instances/default/order-1/history.json")
	if raw.header.Get("Content-Type") != "application/json" || !strings.Contains(raw.body, `"ExecutionCompleted"`) {
		t.Errorf("raw history: %s %s", raw.header.Get("Content-Type"), raw.body)
	}

	fork := w.done("/instances/default/order-1/fork", "event", "4", "new", "order-2")
	w.contains(fork, "/instances/default/order-2")
	w.until(abide.Ref{ID: "order-2"}, func(i abide.Info) bool { return i.Status == abide.Running })
	w.contains(w.see(fork), "This is the fork")
	check.Equal(t, "noted", strings.Join(w.noted, "; "), "start-instance default/order-1; raise-event default/order-1; fork-instance default/order-1")
}

func TestWhatIsDoneToAnInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.start("nap", "nap-1", "", abide.Running)
	status := func(want abide.Status) {
		t.Helper()
		w.until(ref, func(i abide.Info) bool { return i.Status == want })
	}
	at := "/instances/default/nap-1"
	w.contains(w.see(at), "return-window", "in 2 days", at+"/move?timer=return-window")
	w.done(at+"/suspend", "reason", "lunch")
	status(abide.Suspended)
	w.contains(w.see(at), "lunch", "Resume")
	w.done(at + "/resume")
	status(abide.Running)
	w.done(at+"/move", "timer", "return-window", "at", "+1h")
	w.eventually(func() bool {
		waits, err := w.engine.Waits(t.Context(), ref)
		return err == nil && len(waits) == 1 && time.Until(waits[0].At) < 61*time.Minute
	})
	w.done(at+"/terminate", "reason", "enough")
	status(abide.Terminated)
	w.done(at + "/restart")
	status(abide.Running)
	w.done(at + "/cancel")
	status(abide.Cancelled)
	if to := w.done(at + "/delete"); !strings.HasPrefix(to, "/instances?") {
		t.Errorf("after a delete it leads to %s", to)
	}
	if a := w.get(at); a.status != http.StatusNotFound {
		t.Errorf("a deleted instance: status %d", a.status)
	}
}

func TestFailuresShowTheirCauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done("/instances/new", "orchestration", "order", "id", "order-1", "input", `{"card": "declined"}`)
	w.done("/instances/default/order-1/raise", "name", "approved", "data", `true`)
	w.until(abide.Ref{ID: "order-1"}, func(i abide.Info) bool { return i.Status == abide.Failed })
	w.contains(w.see("/instances/default/order-1"), "card-declined: the card was declined", "Activity charge failed", `class="causes"`)
}

func TestTimers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	to := w.done("/timers/new", "tenant", "acme", "key", "invoice/17", "at", "+90m", "payload", `{"order":17}`)
	w.contains(w.see(to), "invoice/17", "armed", "in 1 h", "Snooze", "&#34;order&#34;: 17")
	w.contains(w.see("/timers"), "invoice/17", "acme")
	w.contains(w.see("/timers?tenant=other"), "No timer is armed")
	at := "/timers/acme/invoice%2F17"
	get := func() timer.Timer {
		t.Helper()
		tm, err := w.timers.Get(t.Context(), "acme", "invoice/17")
		check.OK(t, err)
		return tm
	}
	before := get()
	w.done(at+"/move", "at", "2099-12-24 09:00")
	if got := get(); got.DueAt.Year() != 2099 || string(got.Payload) != string(before.Payload) {
		t.Errorf("moved to %v, with %s", got.DueAt, got.Payload)
	}
	w.done(at+"/snooze", "by", "1d")
	if got := get(); got.DueAt.Day() != 25 {
		t.Errorf("snoozed to %v", got.DueAt)
	}
	w.contains(w.post(at+"/snooze", "by", "soon").body, "is no time span", `value="soon"`)
	w.done(at + "/cancel")
	w.contains(w.see(at), "cancelled", "Arm again")
	w.contains(w.see("/timers?status=cancelled"), "invoice/17")

	w.runs()
	w.done(at+"/move", "at", "-1s")
	w.eventually(func() bool { tm := get(); return len(tm.Deliveries) == 1 && tm.Deliveries[0].State == "published" })
	w.contains(w.see(at), "fired", "billing", "published", "Deliver again")
	w.contains(w.see("/sinks"), "billing", "published", "keeping up")
	w.contains(w.see("/sinks?state=failed"), "Nothing was delivered yet")
	w.done(at+"/redeliver", "sink", "billing")
	w.eventually(func() bool { tm := get(); return tm.Version > before.Version && tm.Deliveries[0].State == "published" })
}

// eventually waits until something is true.
func (w *world) eventually(f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if f() {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	w.t.Fatal("it never comes true")
}

func TestActionsAndSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	to := w.done("/actions/new", "slug", "fails", "target", "command", "payload", `{"full":true}`)
	w.contains(w.see(to), "fails", "pending", "Cancel", "&#34;full&#34;: true")
	hook, _, err := w.actions.Receive(t.Context(), action.Received{
		Tenant: "default", Slug: "paid", Target: "elsewhere", Header: map[string]string{"X-Shop": "17"}, Body: []byte("<b>paid</b>"),
	})
	check.OK(t, err)
	at := "/actions/default/" + hook.ID
	w.contains(w.see(at), "webhook", "X-Shop", "&lt;b&gt;paid&lt;/b&gt;", "Download 11 B")
	body := w.get(at + "/body")
	if body.body != "<b>paid</b>" || body.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(body.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("body: %q %v", body.body, body.header)
	}
	w.done(at+"/cancel", "reason", "not ours")
	w.contains(w.see(at), "not ours", "Retry")
	w.done(at + "/retry")
	w.contains(w.see("/actions"), "paid", "fails", "webhook")
	w.contains(w.see("/actions?status=cancelled"), "No action matches")

	to = w.done("/schedules/new", "id", "billing-daily", "slug", "billing", "target", "command", "cron", "0 9 * * *", "zone", "Europe/Berlin", "fold", "second")
	if sch, err := w.actions.GetSchedule(t.Context(), "default", "billing-daily"); err != nil || sch.Fold != action.FoldSecond {
		t.Errorf("schedule: %+v, %v", sch, err)
	}
	w.contains(w.see(to), "Next runs", "09:00:00 CE", "0 9 * * * Europe/Berlin", "active")
	w.done("/schedules/default/billing-daily/pause", "reason", "holidays")
	w.contains(w.see("/schedules"), "paused", "holidays", "/schedules/default/billing-daily/resume")
	w.done("/schedules/default/billing-daily/resume")
	form := w.see("/schedules/default/billing-daily/edit")
	w.contains(form, `value="0 9 * * *"`, `value="Europe/Berlin"`, `<option value="second" selected>`)
	w.done("/schedules/default/billing-daily/edit", "slug", "billing", "target", "command", "every", "1h", "version", "0")
	w.contains(w.see("/schedules"), "every 1h")
	w.contains(w.post("/schedules/default/billing-daily/edit", "slug", "billing", "target", "command", "every", "2h", "version", "1").body, "it was changed: it has version")
	w.contains(w.see(w.done("/schedules/default/billing-daily/trigger")), "billing-daily", "This is the run")
	w.done("/schedules/default/billing-daily/backfill", "from", "-3h", "to", "-0s")
	w.contains(w.see("/schedules/preview?cron=30+2+*+*+*&zone=Europe%2FBerlin"), "The next runs", "02:30:00 CE")
	w.contains(w.see("/schedules/preview?cron=nonsense"), `role="alert"`)
	w.done("/schedules/default/billing-daily/delete")
	w.contains(w.see("/schedules"), "No schedule yet")

	w.runs()
	w.eventually(func() bool {
		page, err := w.actions.List(t.Context(), action.Filter{Slug: "fails", Statuses: []action.Status{action.Failed}, Limit: 1})
		return err == nil && len(page.Actions) == 1
	})
	body = w.get(link(t, w.see("/actions?slug=fails"), "fails"))
	w.contains(body.body, "no route to the bank", "exit status 3", "Exit code", "3, after")
	w.contains(w.see("/"), "1 failed action")
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.quarantine("", "order-1", "attempts", []byte(`{"order":17}`))
	second := w.quarantine("default", "order-2", "expired", []byte{0, 1, 2})
	third := w.quarantine("acme", "order-3", "refused", nil)
	all := w.see("/quarantine")
	w.contains(all, "order-1", "order-2", "order-3", "attempts", "expired")
	mine := w.see("/quarantine?tenant=default")
	w.contains(mine, "order-1", "order-2")
	w.lacks(mine, "order-3")
	event := engine.EventMessage("not-there", "e/1", "approved", []byte(`{"approved":true}`))
	fourth := w.quarantine("", "not-there", "expired", event.Body)
	w.contains(w.see("/quarantine"), "event approved</a> <code class=\"brief\">{&#34;approved&#34;:true}</code>", "/instances/default/not-there")
	w.contains(w.see("/quarantine/~/"+fourth), ">event approved</h1>", "&#34;approved&#34;: true", "<summary>More</summary>")
	w.done("/quarantine/~/" + fourth + "/delete")
	w.contains(w.see("/quarantine/~/"+first), "&#34;order&#34;: 17", "It was tried as often as is allowed", "Redrive")
	w.contains(w.see("/quarantine/default/"+second), "00000000  00 01 02")
	w.done("/quarantine/~/" + first + "/redrive")
	w.done("/quarantine/default/" + second + "/delete")
	w.done("/quarantine/acme/" + third + "/delete")
	w.contains(w.see("/quarantine"), "Nothing is in quarantine")
	if a := w.get("/quarantine/~/" + first); a.status != http.StatusNotFound {
		t.Errorf("a redriven message: status %d", a.status)
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"nap-1", "nap-2", "nap-3"} {
		w.start("nap", id, "acme", abide.Running)
	}
	w.contains(w.see("/instances/selected?kind=suspend&instance=acme%2Fnap-1&instance=acme%2Fnap-2"), "Suspend 2 instances", `value="acme/nap-2"`)
	w.noted = nil
	w.done("/instances/selected", "kind", "suspend", "instance", "acme/nap-1", "instance", "acme/nap-2", "reason", "lunch")
	check.Equal(t, "noted", strings.Join(w.noted, "; "), "suspend-instance acme/nap-1; suspend-instance acme/nap-2")
	w.until(abide.Ref{Tenant: "acme", ID: "nap-2"}, func(i abide.Info) bool { return i.Status == abide.Suspended })
	if a := w.post("/instances/selected", "kind", "delete", "instance", "acme/nap-1"); a.status != http.StatusConflict {
		t.Errorf("to delete one that has not ended: status %d", a.status)
	}
	if a := w.post("/instances/selected", "kind", "delete"); a.status != http.StatusBadRequest {
		t.Errorf("nothing selected: status %d", a.status)
	}

	w.runs()
	w.contains(w.see("/instances/matching?tenant=acme&status=running"), "all instances of tenant acme, with status running")
	to := w.done("/instances/matching", "kind", "terminate", "tenant", "acme", "reason", "over", "counted", "3", "confirm", "3")
	w.until(abide.Ref{Tenant: "acme", ID: "nap-3"}, func(i abide.Info) bool { return i.Status == abide.Terminated })
	w.eventually(func() bool { return strings.Contains(w.see(to), "completed") })
	w.contains(w.see(to), "all instances of tenant acme", "<strong>3</strong> <span>done</span>")
	w.contains(w.see("/operations"), "terminate", "local")
	if a := w.post(strings.TrimSuffix(to, "?done=begun") + "/cancel"); a.status != http.StatusConflict {
		t.Errorf("to stop one that has ended: status %d", a.status)
	}
}

// TestUnservedTargetsShow: a page says of what waits for a target that no live worker serves, and
// which targets are served.
func TestUnservedTargetsShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const warning = "no live worker serves target &#34;commnad&#34;; it waits until one does; served targets: command"
	const short = "no live worker serves its target"
	served := w.done("/schedules/new", "id", "served", "slug", "billing", "target", "command", "every", "1h")
	w.lacks(w.see(served), "no live worker")
	w.lacks(w.see("/schedules"), short)
	to := w.done("/schedules/new", "id", "nightly", "slug", "billing", "target", "commnad", "every", "1h")
	w.contains(w.see(to), "Added. No live worker serves its target", warning)
	w.contains(w.see("/schedules/default/nightly"), warning)
	w.contains(w.see("/schedules"), short)
	w.contains(w.see(w.done("/schedules/default/nightly/trigger")), warning)
	w.contains(w.see(w.done("/actions/new", "slug", "billing", "target", "commnad")), warning)
	w.contains(w.see("/actions"), short)
}

// TestTheMenuCountsWhatIsUnserved on every page.
func TestTheMenuCountsWhatIsUnserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("elsewhere", "import-1", "")
	w.contains(w.see("/instances"), `<span class="status alarm" title="unserved">1`)
}

// TestTheMoveFormSaysWhenATimerIsDue now.
func TestTheMoveFormSaysWhenATimerIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.start("nap", "nap-1", "", abide.Running)
	waits, err := w.engine.Waits(t.Context(), ref)
	check.OK(t, err)
	w.contains(w.see("/instances/default/nap-1/move?timer=return-window"), "Now it is due at "+waits[0].At.UTC().Format("2006-01-02 15:04:05")+" UTC.")
	w.lacks(w.see("/instances/default/nap-1/move?timer=another"), "Now it is due")
}

// TestAPanicShowsItsStackWithTheEvent, and only its value as the error.
func TestAPanicShowsItsStackWithTheEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done("/instances/new", "orchestration", "order", "id", "order-1", "input", `{"card":"panics"}`)
	w.done("/instances/default/order-1/raise", "name", "approved", "data", "true")
	w.until(abide.Ref{ID: "order-1"}, func(i abide.Info) bool { return i.Status == abide.Failed })
	page := w.see("/instances/default/order-1")
	top, events, _ := strings.Cut(page, `id="events"`)
	w.contains(top, "panic: no such card")
	w.lacks(top, "kit_test.go")
	w.contains(events, "Stack trace", "kit_test.go:")
}

// TestChildrenOfALongHistoryAreCounted, also those that the newest events do not tell of.
func TestChildrenOfALongHistoryAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startFan(1_100)
	check.OK(t, approved.Raise(t.Context(), w.engine, "fan-1-part-0", json.RawMessage("1")))
	w.until(abide.Ref{ID: "fan-1-part-0"}, func(i abide.Info) bool { return i.Status == abide.Completed })
	page := w.see("/instances/default/fan-1")
	w.contains(page, "1,100 children: 1,099 running, 1 completed", "And 1,000 more.")
	w.lacks(page, "Only those that events")
	w.contains(w.see("/instances/default/fan-1?show=running"), "And 999 more.")
}
