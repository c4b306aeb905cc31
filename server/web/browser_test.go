//go:build unix

package web_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/browser"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/server/web"
	"github.com/abidehq/abide/timer"
)

// furnish fills a world with a bit of everything.
func furnish(w *world) {
	w.t.Helper()
	ctx := w.t.Context()
	now := time.Now()
	must := func(err error) {
		w.t.Helper()
		check.OK(w.t, err)
	}
	for i := range 120 {
		x := float64(i)
		w.samples = append(w.samples, telemetry.Sample{
			At: now.Add(time.Duration(i-120) * 2 * time.Second), Started: 40 + 12*math.Sin(x/9), Completed: 38 + 11*math.Sin(x/9-0.6), Failed: 2 + 2*math.Sin(x/5),
			Turns: 120, Activities: 80 + 20*math.Sin(x/7), TimersFired: 25 + 5*math.Cos(x/6), ActionsEnded: 3,
			LatenessP50: 0.004 + 0.001*math.Sin(x/4), LatenessP99: 0.03 + 0.015*math.Sin(x/11), QueueAge: 0.2 + 0.15*math.Sin(x/13), Ready: 12,
		})
	}
	w.start("nap", "customer-17-return", "acme", abide.Running)
	w.start("broken", "order-1042", "", abide.Stalled)
	must(w.engine.Suspend(ctx, w.start("nap", "customer-18-return", "", abide.Running), "the customer asked for a pause"))
	w.start("elsewhere", "import-2026-11", "")
	for _, id := range []string{"order-1043", "order-1044", "order-1045"} {
		ref := w.start("order", id, "", abide.Running)
		must(approved.Raise(ctx, w.engine, ref.ID, []byte(`{"by":"an operator"}`)))
		w.until(ref, func(i abide.Info) bool { return i.Status == abide.Completed })
	}
	w.done("/instances/new", "orchestration", "order", "id", "order-1046", "input", `{"card":"declined","items":[{"sku":"book","count":2}]}`, "tags", "customer=17 plan=pro")
	w.done("/instances/default/order-1046/raise", "name", "approved", "data", `true`)
	w.until(abide.Ref{ID: "order-1046"}, func(i abide.Info) bool { return i.Status == abide.Failed })
	for i, key := range []string{"invoice-17-reminder", "trial-4711-ends", "session/9f8e7d6c5b4a39281706f5e4d3c2b1a0-expires"} {
		_, err := w.timers.Schedule(ctx, timer.Request{
			Tenant: []string{"acme", "default", "globex"}[i], Key: key, Delay: time.Duration(i*i*3+1) * time.Hour, Payload: []byte(`{"order":17,"step":"remind"}`),
		})
		must(err)
	}
	for _, slug := range []string{"billing", "fails"} {
		_, _, err := w.actions.Add(ctx, action.Request{Tenant: "default", Slug: slug, Target: "command", Payload: []byte(`{"full":true}`)})
		must(err)
	}
	_, _, err := w.actions.Receive(ctx, action.Received{
		Tenant: "acme", Slug: "payment", Target: "elsewhere", Delivery: "evt-17", Header: map[string]string{"Content-Type": "application/json", "X-Event": "paid"}, Body: []byte(`{"paid":true,"amount":4200}`),
	})
	must(err)
	for _, p := range []action.Plan{
		{Tenant: "default", ID: "billing-daily", Slug: "billing", Target: "command", Cron: "0 9 * * 1-5", Zone: "Europe/Berlin"},
		{Tenant: "acme", ID: "report-hourly", Slug: "report", Target: "command", Every: time.Hour},
	} {
		_, err := w.actions.AddSchedule(ctx, p)
		must(err)
	}
	w.quarantine("", "order-1042", "attempts", []byte(`{"kind":"charge","order":1042}`))
	w.done("/instances/matching", "kind", "resume", "tenant", "acme", "status", "suspended", "reason", "lunch is over")
	_, err = w.timers.Schedule(ctx, timer.Request{Tenant: "acme", Key: "order-1043-shipped", DueAt: now.Add(-time.Second), Payload: []byte(`{"order":1043}`)})
	must(err)
}

// TestPagesInABrowser looks at every page, in both themes and at both widths.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *web.Config) {
		cfg.Audit = func(context.Context, auth.AuditQuery) (auth.AuditPage, error) {
			return auth.AuditPage{Entries: []auth.Entry{
				{At: time.Now(), Subject: "local", Operation: "web.resume", Tenant: "default", Target: "/instances/default/order-1042/resume", Status: 303},
				{At: time.Now(), Subject: "token-1", Operation: "instances.terminate", Tenant: "acme", Target: "customer-17-return", Status: 403},
			}, Next: "more"}, nil
		}
	})
	furnish(w)
	w.runs()
	w.eventually(func() bool { return strings.Contains(w.see("/sinks"), "published") })
	w.eventually(func() bool { return strings.Contains(w.see("/actions"), "exit status 3") })
	quarantined := link(t, w.see("/quarantine"), "e/message-1")
	failed := link(t, w.see("/actions?slug=fails"), "fails")
	hook := link(t, w.see("/actions?slug=payment"), "payment")
	pages := map[string]string{
		"overview": "/", "instances": "/instances", "instances-none": "/instances?status=cancelled", "completed": "/instances/default/order-1043",
		"failed": "/instances/default/order-1046", "stalled": "/instances/default/order-1042", "running": "/instances/acme/customer-17-return",
		"start": "/instances/new", "timers": "/timers", "timer": "/timers/acme/order-1043-shipped", "actions": "/actions", "action": failed, "webhook": hook,
		"schedules": "/schedules", "schedule": "/schedules/default/billing-daily", "schedule-new": "/schedules/new", "preview": "/schedules/preview?cron=30+2+*+*+*&zone=Europe%2FBerlin",
		"audit": "/audit", "help": "/help", "sinks": "/sinks", "quarantine": "/quarantine", "quarantined": quarantined, "workers": "/workers", "operations": "/operations",
	}
	pages["worker"] = link(t, w.see("/workers"), "<strong>shop</strong>")
	w.startLong(2000, 40)
	pages["long"], pages["long-older"] = longPage, longPage+"?events=1500"
	chromium := browser.New(t)
	for _, l := range looks {
		t.Run(l.String(), func(t *testing.T) {
			b := openTab(t, chromium, w, l)
			for name, path := range pages {
				b.Open(path)
				b.check(name)
				b.Shoot(name)
			}
			b.Open("/timers")
			b.Press("Move invoice-17-reminder")
			b.Wait(`document.querySelector("dialog[open] input")`)
			b.check("dialog")
			b.Shoot("dialog")
		})
	}
}

// TestShardsInABrowser looks at the page of shards while a tenant is moved and a shard is down.
func TestShardsInABrowser(t *testing.T) {
	t.Parallel()
	w, s, cut := newShards(t)
	resume := moving(t, s, "acme")
	defer resume()
	cut.Store(true)
	w.eventually(func() bool { return strings.Contains(w.see("/shards"), "<progress") })
	chromium := browser.New(t)
	for _, l := range looks {
		t.Run(l.String(), func(t *testing.T) {
			b := openTab(t, chromium, w, l)
			b.Open("/shards")
			b.check("shards")
			b.Shoot("shards")
		})
	}
}

// TestAStoryInABrowser does what people do, by clicking, without loading a page by hand.
func TestAStoryInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser.New(t)
	for _, l := range []browser.Look{looks[0], looks[3]} {
		t.Run(l.String(), func(t *testing.T) {
			w := newWorld(t)
			b := openTab(t, chromium, w, l)
			b.startAndWatch()
			b.forkIt()
			b.moveATimer()
			b.pauseASchedule()
			b.redrive()
		})
	}
}

// startAndWatch starts an instance, sees it move, raises its event and sees it complete.
func (b *tab) startAndWatch() {
	b.t.Helper()
	b.Open("/instances")
	b.Press("Start an instance")
	b.Fill("Orchestration", "order")
	b.Fill("ID", "order-1")
	b.Fill("Input", `{"order": 17}`)
	b.Press("Start")
	b.Shows("Started.")
	b.Shows("waits for approval")
	b.Live()
	b.Run(chromedp.Evaluate("window.stayed = true", nil))
	// Somebody else raises an event that it does not wait for: the page shows it by itself.
	check.OK(b.t, abide.NewEvent[string]("hello").Raise(b.t.Context(), b.engine, "order-1", "there"))
	b.Shows("Event hello received")
	if !b.Is("window.stayed") {
		b.t.Error("the page was loaded again")
	}
	b.Press("Raise event")
	b.Fill("Name", "approved")
	b.Fill("Payload", `{"by": "an operator"}`)
	b.Shoot("raise")
	b.Press("Raise")
	b.Shows("The instance waits for the event and receives it.")
	b.Shows("charge-17")
	b.Shows("Restart")
	b.check("completed")
	b.Shoot("story-completed")
}

func (b *tab) forkIt() {
	b.t.Helper()
	b.Run(chromedp.Evaluate(`[...document.querySelectorAll(".fork")].find(e => e.parentElement.textContent.includes("Event hello received")).click()`, nil))
	b.Fill("ID of the new instance", "order-2")
	b.Press("Fork")
	b.Shows("This is the fork")
	b.Wait(`location.pathname === "/instances/default/order-2"`)
	b.Shows("waits for approval")
}

func (b *tab) moveATimer() {
	b.t.Helper()
	if _, err := b.timers.Schedule(b.t.Context(), timer.Request{Tenant: "acme", Key: "invoice-17", Delay: time.Hour}); err != nil {
		b.t.Fatal(err)
	}
	b.Press("Timers")
	b.Shows("invoice-17")
	b.Press("Move invoice-17")
	b.Fill("When", "2099-12-24 09:00")
	b.Press("Move")
	b.Shows("The timer was moved.")
	if got, err := b.timers.Get(b.t.Context(), "acme", "invoice-17"); err != nil || got.DueAt.Year() != 2099 {
		b.t.Errorf("the timer is due at %v, %v", got.DueAt, err)
	}
}

func (b *tab) pauseASchedule() {
	b.t.Helper()
	if _, err := b.actions.AddSchedule(b.t.Context(), action.Plan{Tenant: "default", ID: "billing-daily", Slug: "billing", Target: "command", Cron: "0 9 * * *"}); err != nil {
		b.t.Fatal(err)
	}
	b.Press("Schedules")
	b.Press("Pause billing-daily")
	b.Fill("Reason", "holidays")
	b.Press("Pause")
	b.Shows("The schedule is paused.")
	b.Shows("holidays")
	if got, err := b.actions.GetSchedule(b.t.Context(), "default", "billing-daily"); err != nil || got.Status != action.Paused {
		b.t.Errorf("the schedule is %v, %v", got.Status, err)
	}
}

func (b *tab) redrive() {
	b.t.Helper()
	b.Press("Quarantine")
	b.Shows("Nothing is in quarantine")
	b.quarantine("", "order-9", "attempts", []byte(`{"order":9}`))
	b.Shows("order-9") // without a reload
	b.Press("Redrive e/message-1")
	b.Press("Redrive")
	b.Shows("The message was put back")
	b.Shows("Nothing is in quarantine")
}

// TestKeyboardInABrowser goes through a page with the keyboard alone.
func TestKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	furnish(w)
	b := openTab(t, browser.New(t), w, looks[0])
	b.Open("/timers")
	b.Run(chromedp.KeyEvent(kb.Tab))
	check.Equal(t, "the first stop", b.Text("document.activeElement.textContent"), "Skip to the content")
	b.Run(chromedp.KeyEvent(kb.Enter))
	b.Wait(`document.activeElement.id === "main"`)

	// From the top to the last row: each stop comes after the one before, and is seen.
	b.Open("/timers")
	b.Run(chromedp.Evaluate("window.last = document.body; window.stops = 0", nil))
	const step = `(function () {
		const now = document.activeElement;
		const after = last === document.body || !!(last.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING);
		const style = getComputedStyle(now);
		const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
		const text = now.outerHTML.slice(0, 120);
		if (now === document.body) return "end";
		last = now; stops++;
		return (after ? "" : "out of order ") + (outlined ? "" : "not seen ") + ((after && outlined) ? "" : text);
	})()`
	for range 60 {
		b.Run(chromedp.KeyEvent(kb.Tab))
		got := b.Text(step)
		if got == "end" {
			break
		}
		check.Equal(t, "a stop", got, "")
	}
	if !b.Is("stops > 20") {
		t.Errorf("there are only %s stops", b.Text("String(stops)"))
	}

	// A slash goes to the search, from anywhere but a field.
	b.Open("/")
	b.Key("/")
	b.Wait(`document.activeElement.id === "jump" && document.activeElement.value === ""`)
	b.Run(chromedp.KeyEvent("order-1043"), chromedp.KeyEvent(kb.Enter))
	b.Wait(`location.pathname === "/instances/default/order-1043"`)

	// A question mark shows the keys; a click on a time shows it exactly, and another one in words.
	b.Live()
	b.Key("?")
	b.Wait(`document.querySelector("dialog[open]")?.innerText.includes("Go to an instance by its ID")`)
	b.Run(chromedp.KeyEvent(kb.Escape))
	b.Wait(`!document.querySelector("dialog[open]")`)
	const started = `document.querySelector("dl.facts time")`
	b.Run(chromedp.Evaluate(started+`.click()`, nil))
	b.Wait(started + `.textContent === ` + started + `.title`)
	b.Run(chromedp.Evaluate(started+`.click()`, nil))
	b.Wait(started + `.textContent.endsWith("ago")`)

	// A dialog takes the focus, keeps it, and gives it back.
	b.Open("/timers")
	b.Run(chromedp.Evaluate(`document.querySelector('[aria-label="Move invoice-17-reminder"]').focus()`, nil), chromedp.KeyEvent(kb.Enter))
	b.Wait(`document.activeElement.closest("dialog[open]")`)
	for range 8 {
		b.Run(chromedp.KeyEvent(kb.Tab))
		if !b.Is(`document.activeElement === document.body || document.activeElement.closest("dialog[open]")`) {
			t.Errorf("the focus leaves the dialog: %s", b.Text("document.activeElement.outerHTML"))
		}
	}
	b.Run(chromedp.KeyEvent(kb.Escape))
	b.Wait(`!document.querySelector("dialog[open]")`)
	b.Wait(`document.activeElement.getAttribute("aria-label") === "Move invoice-17-reminder"`)
}

// TestHeldEnterSendsNothing: the Enter that opens a dialog is repeated while it is held, and does not send
// its form, which is filled in; another one does.
func TestHeldEnterSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	furnish(w)
	b := openTab(t, browser.New(t), w, looks[0])
	b.Open("/timers")
	enter := func(kind input.KeyType, repeat bool) {
		t.Helper()
		b.Run(input.DispatchKeyEvent(kind).WithKey("Enter").WithCode("Enter").WithText("\r").WithUnmodifiedText("\r").WithAutoRepeat(repeat).
			WithWindowsVirtualKeyCode(13).WithNativeVirtualKeyCode(13))
	}
	b.Run(chromedp.Evaluate(`document.querySelector('[aria-label="Move invoice-17-reminder"]').focus()`, nil))
	enter(input.KeyDown, false)
	b.Wait(`document.activeElement.closest("dialog[open]") && document.activeElement.value !== ""`)
	b.Run(chromedp.Evaluate(`window.sent = 0; document.addEventListener("submit", function () { sent++; }, true)`, nil))
	for range 5 {
		enter(input.KeyDown, true)
	}
	if !b.Is(`sent === 0 && document.querySelector("dialog[open]")`) {
		t.Error("an Enter that is held has sent the form")
	}
	enter(input.KeyUp, false)
	enter(input.KeyDown, false)
	b.Shows("The timer was moved.")
}

// TestThemeIsKept: what a person has chosen wins over what the system says.
func TestThemeIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := openTab(t, browser.New(t), w, browser.Look{Theme: "light", Width: 1280})
	ground := func() string { return b.Text("getComputedStyle(document.body).backgroundColor") }
	b.Open("/")
	light := ground()
	b.Run(chromedp.Click("#theme", chromedp.ByQuery), chromedp.Click("#theme", chromedp.ByQuery))
	b.Wait(`document.documentElement.dataset.theme === "dark"`)
	dark := ground()
	if light == dark {
		t.Errorf("both themes have the ground %s", light)
	}
	b.Open("/instances")
	check.Equal(t, "on the next page the ground", ground(), dark)
	b.check("chosen")
}

// TestLiveKeepsWhatSomebodyDoes: a page that changes does not take away what somebody has
// ticked or opened.
func TestLiveKeepsWhatSomebodyDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "", abide.Running)
	w.start("nap", "nap-2", "", abide.Running)
	b := openTab(t, browser.New(t), w, looks[0])
	b.Open("/instances")
	b.Live()
	b.Run(chromedp.Evaluate(`document.querySelector('input[aria-label="Select nap-1"]').click()`, nil)) // whose row may be replaced at any moment
	w.start("nap", "nap-3", "", abide.Running)
	b.Shows("nap-3")
	if !b.Is(`document.querySelector('input[aria-label="Select nap-1"]').checked && !document.querySelector('input[aria-label="Select nap-3"]').checked`) {
		t.Error("the tick is gone")
	}
	for i := range 50 { // a page of rows: nap-1 leaves the list
		w.start("nap", fmt.Sprint("later-", i), "")
	}
	b.Shows("later-49")
	b.Wait(`!document.querySelector('input[aria-label="Select nap-1"]')`)
	b.Shows("1 selected")
	b.Press("Continue")
	b.Wait(`document.querySelector("dialog[open] h1").textContent === "Suspend 1 instance"`)
	b.Press("Suspend")
	b.Shows("Done, for all that were selected.")
	w.until(abide.Ref{ID: "nap-1"}, func(i abide.Info) bool { return i.Status == abide.Suspended })
}

// TestNothingTicked: a change of the selected rows without any is refused in its place, and
// Enter on a box is no click on the button.
func TestNothingTicked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("nap", "nap-1", "", abide.Running)
	b := openTab(t, browser.New(t), w, looks[0])
	enter := input.DispatchKeyEvent(input.KeyDown).WithKey("Enter").WithText("\r").WithWindowsVirtualKeyCode(13)
	b.Open("/instances?status=running")
	b.Run(chromedp.Evaluate(`document.querySelector('input[aria-label="Select nap-1"]').focus()`, nil), enter)
	b.Press("Continue")
	b.Shows("No row is ticked")
	if !b.Is(`location.search === "?status=running" && !document.querySelector("dialog[open]")`) {
		t.Error("the list was left")
	}
	w.start("nap", "nap-2", "", abide.Running)
	b.Shows("nap-2")
	if !b.Is(`document.body.innerText.includes("No row is ticked")`) {
		t.Error("a change of the list takes away what was said about the rows")
	}
	b.Run(chromedp.Evaluate(`document.querySelector('input[aria-label="Select nap-1"]').click()`, nil), enter)
	b.Shows("1 selected")
	if !b.Is(`!document.querySelector("dialog[open]")`) {
		t.Error("Enter on a box opens the form")
	}
	b.Press("Untick all")
	b.Wait(`!document.querySelector('input[aria-label="Select nap-1"]').checked && !document.body.innerText.includes("1 selected")`)
}
