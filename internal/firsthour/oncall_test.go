//go:build unix

package firsthour

import (
	"fmt"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/abidehq/abide/internal/browser"
	"github.com/abidehq/abide/internal/check"
)

// Ways to look at a page.
var (
	desk  = browser.Look{Theme: "light", Width: 1280}
	dark  = browser.Look{Theme: "dark", Width: 1280}
	phone = browser.Look{Theme: "light", Width: 390}
)

// visit is a tab of a browser that looks at the page of a process.
type visit struct {
	*process
	*browser.Tab
}

// TestOnCall plays the tasks of an operator on the page.
func TestOnCall(t *testing.T) {
	t.Parallel()
	built := build(t)
	service := serveSaas(t, built, "pebble://"+filepath.Join(t.TempDir(), "data"))
	demo := start(t, built, built.abide, nil, "serve", "--demo", "--store", filepath.Join(t.TempDir(), "data"), "--addr", "127.0.0.1:0")
	chromium := browser.New(t)
	for _, task := range []struct {
		name string
		at   *process
		look browser.Look
		play func(v *visit)
	}{
		{"01 failed and stalled instances are listed with their reason", service, desk, (*visit).reasonsInLists},
		{"02 a stalled instance is resumed", demo, desk, (*visit).resume},
		{"03 an approval is raised with its payload", service, desk, (*visit).approve},
		{"04 a timer is moved", service, desk, (*visit).moveTimer},
		{"05 many are cancelled, with their number", service, desk, (*visit).cancelMany},
		{"06 a schedule is added, with targets, zones and a preview", demo, desk, (*visit).addSchedule},
		{"07 one instance is found among many", service, desk, (*visit).search},
		{"08 large instances are summed up", service, desk, (*visit).large},
		{"09 a quarantined event is shown decoded", service, desk, (*visit).quarantined},
		{"10 workers say what they serve", service, desk, (*visit).workers},
		{"11 commands of the API documentation run", service, desk, (*visit).apiDocs},
		{"12 keys are shown, and a phone shows alarms", service, phone, (*visit).onAPhone},
		{"13 edges of fields are seen in the dark", service, dark, (*visit).inTheDark},
	} {
		t.Run(task.name, func(t *testing.T) {
			tab := browser.Open(t, chromium, task.at.url, task.look)
			tab.Patience = patience
			task.play(&visit{task.at.on(t), tab})
		})
	}
	t.Run("14 a page whose server is away says so, keeps what was typed, and goes on", func(t *testing.T) {
		serverAway(t, built, func(p *process) *visit {
			tab := browser.Open(t, chromium, p.url, desk)
			tab.Patience = patience
			return &visit{p, tab}
		})
	})
}

// unchecked returns more of the body of a start that is not checked; before, none was.
func (p *process) unchecked() string {
	if p.before {
		return ""
	}
	return `,"unchecked":true`
}

// startUnchecked starts an instance with an input that need not fit.
func (p *process) startUnchecked(orchestration, id, input string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"orchestration":%q,"id":%q,"input":%s%s}`, orchestration, id, input, p.unchecked())
	if got := p.post("/api/v1/instances", body); got.status != http.StatusCreated {
		p.t.Fatalf("start %s: %d %s", id, got.status, got.body)
	}
}

// shown returns the text of the page.
func (v *visit) shown() string {
	v.t.Helper()
	return v.Text("document.body.innerText")
}

// row returns the text of the row of a table that has a text.
func (v *visit) row(text string) string {
	v.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find(r => r.innerText.includes(%q))`, text)
	v.Wait(find)
	return v.Text(find + ".innerText")
}

// refused waits until the open dialog says what is wrong, and returns that.
func (v *visit) refused() string {
	v.t.Helper()
	v.Wait(`document.querySelector("dialog[open] .problem")`)
	v.Forgive() // the browser complains about the status of the answer
	return v.Text(`document.querySelector("dialog[open] .problem").innerText`)
}

func (v *visit) reasonsInLists() {
	v.startInstance("boom", "boom-1", "", "failed")
	v.startInstance("trial", "ended-1", customer, "running")
	v.post(instance("ended-1")+"/events/cancelled", "null")
	v.until("ended-1", "completed")
	v.startUnchecked("patience", "patience-1", `{"wait":"48h"}`)
	v.until("patience-1", "stalled")
	v.Open("/")
	v.Wait(`document.querySelector(".attention")`)
	has(v.t, "the overview", v.shown(), "1 stalled", "failed in the last hour", "the boiler burst")
	v.Open("/instances?status=failed,stalled")
	has(v.t, "the row of a failed instance", v.row("boom-1"), "panic: the boiler burst")
	has(v.t, "the row of a stalled instance", v.row("patience-1"), "does not fit its type")
	v.Open("/instances?orchestration=trial")
	lacks(v.t, "the row of an ended instance", v.row("ended-1"), "in trial")
	v.Open("/instances/default/patience-1")
	v.Shows("48h")
}

func (v *visit) resume() {
	v.until("broken-1", "stalled")
	v.Open("/instances/default/broken-1")
	v.Press("Resume")
	v.Wait(`document.querySelector("dialog[open] button")`)
	if v.Is(`document.activeElement.textContent.trim() === "Not now"`) {
		v.t.Error("the dialog has the focus on the button that does nothing")
	}
	v.Press("Resume")
	v.Shows("completed")
	v.Wait(`/Resumed.* by /.test(document.getElementById("events").textContent)`)
}

func (v *visit) approve() {
	v.startInstance("refund", "approve-1", `{"customer":"customer7","cents":1}`, "running")
	v.Open("/instances/default/approve-1")
	v.Wait(`document.getElementById("waits")?.innerText.includes("event decided")`)
	v.Press("Raise")
	v.Wait(`document.getElementById("f-data")`)
	has(v.t, "the payload of the form", v.Text(`document.getElementById("f-data").value`), `"approved"`, `"by"`)
	v.Fill("Payload", `{"approved":"yes","by":5}`)
	v.Press("Raise")
	has(v.t, "the dialog", v.refused(), "approved", "true or false")
	v.Fill("Name", "decidid")
	v.Fill("Payload", `{"approved":true,"by":"an operator"}`)
	v.Press("Raise")
	v.Shows("Kept: the instance does not wait for an event of that name yet.")
	v.Press("Raise")
	v.Fill("Payload", `{"approved":true,"by":"an operator"}`)
	v.Press("Raise")
	v.Shows("approved by an operator")
}

func (v *visit) moveTimer() {
	v.startInstance("trial", "move-1", customer, "running")
	v.Open("/instances/default/move-1")
	v.Press("Move")
	v.Wait(`document.querySelector("dialog[open]")`)
	has(v.t, "the dialog", v.Text(`document.querySelector("dialog[open]").innerText`), "Now it is due")
	v.Fill("When", "tomorrow 9am")
	v.Press("Move")
	has(v.t, "the dialog", v.refused(), "tomorrow 9am")
	v.Fill("When", "+1s")
	v.Press("Move")
	v.Wait(`document.getElementById("waits").innerText.includes("day-13")`)
	v.Open("/")
	lacks(v.t, "the overview", v.shown(), "no timer is armed, and")
}

func (v *visit) cancelMany() {
	for i := range 30 {
		v.startInstance("signup", fmt.Sprint("many-", i), `"customer7@example.com"`)
	}
	for i := range 30 {
		v.until(fmt.Sprint("many-", i), "running")
	}
	v.Open("/instances")
	v.Press("Change all that match…")
	v.Wait(`document.querySelector("dialog[open]")?.innerText.includes("to confirm")`)
	v.Open("/instances?orchestration=signup&status=running")
	v.Press("Change all that match…")
	v.Wait(`document.querySelector("dialog[open]")?.innerText.includes("30 instances")`)
	v.Run(chromedp.SetValue("#f-kind", "cancel", chromedp.ByQuery))
	v.Run(chromedp.Evaluate(`document.querySelector("dialog[open] form button").click()`, nil))
	v.Shows("30 of 30")
	v.Open("/")
	v.Wait(`[...document.querySelectorAll(".figures li")].some(e => e.innerText.includes("cancelled"))`)
}

func (v *visit) addSchedule() {
	v.Open("/schedules")
	v.Press("Add a schedule")
	v.Wait(`document.querySelectorAll("dialog[open] #l-zone option").length > 50`)
	v.Wait(`document.querySelector("dialog[open] #l-target option[value=demo-hello]")`)
	v.Fill("ID", "every-five")
	v.Fill("Slug", "five")
	v.Fill("Target", "demo-helo")
	v.Fill("Cron", "*/5 * * * *")
	v.Fill("Time zone", "Kolkata")
	v.Press("Add")
	problem := v.refused()
	has(v.t, "the dialog", problem, `unknown time zone "Kolkata"`)
	lacks(v.t, "the dialog", problem, "action: add")
	v.Fill("Time zone", "Asia/Kolkata")
	v.Wait(`document.querySelector("dialog[open] .preview")?.innerText.includes("IST")`)
	v.Press("Add")
	v.Shows(`no live worker serves`)
	v.Open("/workers")
	v.Shows("demo-helo")
}

func (v *visit) search() {
	for i := range 20 {
		body := fmt.Sprintf(`{"orchestration":"trial","id":"cust-%04d","input":%s,"tags":{"region":"eu","plan":%q}}`, 430+i, customer, []string{"pro", "free"}[i%2])
		if got := v.post("/api/v1/instances", body); got.status != http.StatusCreated {
			v.t.Fatal(got.body)
		}
	}
	v.Open("/instances?id=cust-043")
	v.Shows("These begin with it")
	v.row("cust-0439")
	v.Open("/instances?tag=region%3Deu,plan%3Dpro")
	v.row("cust-0430")
	lacks(v.t, "the list by two tags", v.shown(), "cust-0431")
	v.Wait(`document.querySelector("tbody a.tag")`)
	check.Equal(v.t, "the status of the API with the page's notation", v.get("/api/v1/instances?tag=region=eu&from=-1h").status, http.StatusOK)
}

func (v *visit) large() {
	v.startInstance("fan", "fan-200", "200", "completed")
	v.startInstance("long", "long-1000", "250")
	eventually(v.t, "the work is done", func() bool { return strings.Contains(v.get(instance("long-1000")+"/waits").body, "cool-down") })
	v.Open("/instances/default/fan-200")
	v.Shows("200 children: 197 completed, 3 failed")
	if n := len(v.get("/instances/default/fan-200").body); n > 100_000 {
		v.t.Errorf("the page has %d bytes", n)
	}
	v.Open("/instances/default/fan-200?show=failed")
	has(v.t, "the failed children", v.Text(`document.getElementById("children").textContent`), "c-013", "c-080", "c-147", "has no money")
	lacks(v.t, "the failed children", v.Text(`document.getElementById("children").textContent`), "c-014")
	v.Open("/instances?parent=fan-200&status=failed")
	v.row("c-147")
	v.Open("/instances/default/long-1000")
	v.Wait(`document.getElementById("timeline")?.innerText.includes("cool-down")`)
}

func (v *visit) quarantined() {
	if got := v.post(instance("not-there")+"/events/decided?keep_for=1s", `{"approved":true,"by":"an operator"}`); got.status/100 != 2 {
		v.t.Fatal(got.body)
	}
	eventually(v.t, "it is in quarantine", func() bool { return strings.Contains(v.get("/quarantine").body, "not-there") })
	v.Open("/quarantine")
	v.Wait(`[...document.querySelectorAll("tbody a")].some(a => a.textContent.includes("decided"))`)
	v.Run(chromedp.Evaluate(`[...document.querySelectorAll("tbody a")].find(a => a.textContent.includes("decided")).click()`, nil))
	v.Shows("Payload")
	has(v.t, "the page", v.shown(), "decided", "not-there", `"approved"`)
}

func (v *visit) workers() {
	v.Open("/workers")
	v.Wait(`[...document.querySelectorAll("tbody .tag")].some(e => e.textContent === "refund")`)
	has(v.t, "the page", v.shown(), "Cached", "Serves: orchestration activity target")
	v.Wait(`[...document.querySelectorAll("tbody .tag.target")].some(e => e.textContent === "report")`)
	lacks(v.t, "the page", v.shown(), "What nobody serves")
	check.Equal(v.t, "the status of a misspelt start", v.post("/api/v1/instances", `{"orchestration":"trail"}`).status, http.StatusUnprocessableEntity)
}

func (v *visit) apiDocs() {
	v.Open("/docs")
	has(v.t, "the documentation", v.shown(), "Back to the page")
	text := v.get("/docs").body
	lacks(v.t, "the documentation", text, "Authorization: Bearer", "{…}")
	run := 0
	for _, found := range regexp.MustCompile(`curl '?(http://[^\s'"<]+)`).FindAllStringSubmatch(html.UnescapeString(text), -1) {
		path, ours := strings.CutPrefix(found[1], v.url)
		if !ours {
			v.t.Errorf("%s is at another address than %s", found[1], v.url)
			continue
		}
		run++
		if got := v.get(path); got.status == http.StatusUnauthorized || got.status == http.StatusUnprocessableEntity {
			v.t.Errorf("curl %s: %d %s", found[1], got.status, got.body)
		}
	}
	if run < 10 {
		v.t.Errorf("the documentation has %d commands without options, want 10", run)
	}
}

func (v *visit) onAPhone() {
	v.startUnchecked("patience", "patience-12", `{"wait":"48h"}`)
	v.until("patience-12", "stalled")
	v.Open("/")
	const alarm = `[...document.querySelectorAll("nav.menu li")].find(e => e.innerText.includes("Instances"))`
	v.Wait(alarm + `.querySelector(".alarm")`)
	if !v.Is(alarm + `.getBoundingClientRect().right <= innerWidth && document.scrollingElement.scrollWidth <= innerWidth`) {
		v.t.Error("the alarm is out of sight, or the page is too wide")
	}
	v.Open("/instances/default/patience-12")
	v.Wait(`document.getElementById("live-state")?.hidden === false`)
	v.Key("?")
	v.Wait(`document.querySelector("dialog[open]")?.innerText.includes("Go to an instance by its ID")`)
}

// edges is the lowest contrast of an edge of a field to what is around it.
const edges = `(function () {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const light = (colour) => {
		canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
	};
	return Math.min(...[...document.querySelectorAll("form.filter input:not([type=checkbox])")].map((e) => {
		const pair = [light(getComputedStyle(e).borderTopColor), light(getComputedStyle(document.body).backgroundColor)].sort((a, b) => b - a);
		return pair[0] / pair[1];
	}));
})()`

func (v *visit) inTheDark() {
	v.Open("/instances")
	if !v.Is(edges + " >= 3") {
		v.t.Errorf("an edge of a field has a contrast of %s, want 3", v.Text("String("+edges+")"))
	}
}

// serverAway kills the server below an open page, and starts it again.
func serverAway(t *testing.T, built programs, look func(*process) *visit) {
	store := "pebble://" + filepath.Join(t.TempDir(), "data")
	first := serveSaas(t, built, store)
	first.startInstance("refund", "away-1", `{"customer":"customer7","cents":1}`, "running")
	v := look(first)
	v.Open("/instances/default/away-1")
	v.Live()
	v.Press("Raise event")
	v.Wait(`document.querySelector("dialog[open] #f-data")`)
	v.Run(chromedp.SetValue("#f-name", "decided", chromedp.ByQuery), chromedp.SetValue("#f-data", `{"approved":true,"by":"an operator"}`, chromedp.ByQuery))
	first.end(syscall.SIGKILL)
	v.Shows("No connection since")
	v.Press("Raise")
	has(t, "the dialog", v.refused(), "Not sent")
	check.Equal(t, "the payload", v.Text(`document.getElementById("f-data").value`), `{"approved":true,"by":"an operator"}`)
	address := strings.TrimSuffix(strings.TrimPrefix(first.url, "http://"), "/abide")
	second := start(t, built, built.saas, []string{"ABIDE_STORE=" + store}, "serve", address)
	v.Wait(`document.getElementById("away").hidden`)
	v.Press("Raise")
	v.Shows("approved by an operator")
	v.Forgive() // it could not connect
	second.until("away-1", "completed")
}
