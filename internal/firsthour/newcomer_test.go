//go:build unix

package firsthour

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// TestFirstHour plays the frictions of a newcomer with the embedded store.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	store := "pebble://" + filepath.Join(t.TempDir(), "data")
	service := serveSaas(t, build(t), store)
	for _, f := range []struct {
		name string
		play func(p *process)
	}{
		{"03 an event that reaches no instance is reported", (*process).raisesToNobody},
		{"04 a payload of the wrong type is refused, and one inside is corrected", (*process).wrongPayload},
		{"05 the awaited event is shown with its payload", (*process).awaited},
		{"06 a name that is not served is logged and named", (*process).notServed},
		{"07 no tenant is the default tenant", (*process).noTenant},
		{"08 there is a guide", (*process).guide},
		{"09 a reason in the body is kept, and a wrong field is refused", (*process).reasons},
		{"11 a ping of GitHub starts nothing", (*process).ping},
		{"12 a mounted server has metrics", (*process).metrics},
		{"13 the command line reaches a program that has the store open", (*process).storeInUse},
		{"14a suspend prints the status that it leads to", (*process).suspendPrints},
		{"14b lists begin with the newest, and show results", (*process).lists},
		{"14c a misspelt orchestration is refused", (*process).misspelt},
		{"14d a version that is not served is refused", (*process).versions},
		{"14e the ID of what a schedule starts has its date", (*process).datedID},
		{"14f a slash in the path of the API is explained", (*process).slash},
		{"14h a fork's history has no negative times", (*process).forkTimes},
		{"14i a mounted server's documentation has a version", (*process).docsVersion},
		{"14j the error of a panic is its message", (*process).panicMessage},
	} {
		t.Run(f.name, func(t *testing.T) { f.play(service.on(t)) })
	}
	t.Run("08 stopping ends with exit code 0", func(t *testing.T) {
		service.end(syscall.SIGTERM)
		check.Equal(t, "the exit code", service.cmd.ProcessState.ExitCode(), 0)
	})
	t.Run("03 an event that reaches no instance is reported in Go", func(t *testing.T) { raisesInGo(t, service.programs, store) })
}

// customer is the input of a trial.
const customer = `{"id":"customer7","mail":"customer7@example.com","plan":"free"}`

func (p *process) raisesToNobody() {
	has(p.t, "raise for an instance that does not exist", p.ok("instances", "raise", "nobody", "upgraded", "--data", `"pro"`), "kept", "does not exist")
	if got := p.call(http.MethodPost, instance("nobody")+"/events/upgraded?must_exist=true", `"pro"`); got.status != http.StatusNotFound {
		p.t.Errorf("must_exist: %d %s", got.status, got.body)
	}
	p.startInstance("trial", "trial-3", customer, "running")
	p.ok("instances", "raise", "trial-3", "cancelled")
	p.until("trial-3", "completed")
	got := p.cli("instances", "raise", "trial-3", "upgraded", "--data", `"pro"`)
	check.Equal(p.t, "the exit code for an instance that has ended", got.code, 4)
	has(p.t, "the message", got.err, "completed")
	check.Equal(p.t, "the status for an instance that has ended", p.post(instance("trial-3")+"/events/upgraded", `"pro"`).status, http.StatusConflict)
}

// raisesInGo is raisesToNobody for programs.
func raisesInGo(t *testing.T, built programs, store string) {
	for id, want := range map[string]string{"trial-3": "completed", "another": "not found"} {
		got := command(t, built.saas, []string{"ABIDE_STORE=" + store}, "raise", id)
		check.Equal(t, "the exit code for "+id, got.code, 1)
		has(t, "the error", got.out, want)
	}
}

func (p *process) wrongPayload() {
	const refund = `{"customer":"customer7","cents":1}`
	p.startInstance("refund", "refund-4", refund, "running")
	got := p.cli("instances", "raise", "refund-4", "decided", "--data", `"yes"`)
	check.Equal(p.t, "the exit code", got.code, 2)
	has(p.t, "the message", got.err, "decided", "approved, by")
	got = p.cli("instances", "start", "patience", "--id", "patience-4", "--input", `{"wait":"48h"}`)
	check.Equal(p.t, "the exit code of a start with a wrong input", got.code, 2)
	has(p.t, "the message", got.err, "wait", "nanoseconds")
	wrapped := p.post(instance("refund-4")+"/events/decided", `{"data":{"approved":true,"by":"an operator"}}`)
	check.Equal(p.t, "the status for a value in an envelope", wrapped.status, http.StatusUnprocessableEntity)
	p.until("refund-4", "running")

	// One that got in is corrected, and the instance goes on under its own ID.
	p.ok("instances", "raise", "refund-4", "decided", "--data", `"yes"`, "--unchecked")
	p.until("refund-4", "stalled")
	p.ok("instances", "correct", "refund-4", "--data", `{"approved":true,"by":"an operator"}`)
	p.until("refund-4", "completed")
}

func (p *process) awaited() {
	p.startInstance("refund", "refund-5", `{"customer":"customer7","cents":1}`, "running")
	has(p.t, "show", p.ok("instances", "show", "refund-5"), `event decided with {"approved":false,"by":""}`)
	has(p.t, "waits of the API", p.get(instance("refund-5")+"/waits").body, `"decided"`, "event")
}

func (p *process) notServed() {
	got := command(p.t, p.saas, []string{"ABIDE_STORE=pebble://" + filepath.Join(p.t.TempDir(), "data")}, "forgot")
	has(p.t, "the error of Result", got.out, "explode", "no live worker")
	has(p.t, "the log", got.err, "explode", "no live worker")
}

func (p *process) noTenant() {
	got := command(p.t, p.saas, []string{"ABIDE_STORE=pebble://" + filepath.Join(p.t.TempDir(), "data")}, "tenant")
	if got.code != 0 {
		p.t.Errorf("a schedule and a hook without a tenant: %s", got.out)
	}
}

// read returns a file of the tree, or nothing.
func (p *process) read(path ...string) string {
	text, err := os.ReadFile(filepath.Join(append([]string{p.tree}, path...)...))
	if err != nil {
		p.t.Errorf("the tree lacks %s", filepath.Join(path...))
	}
	return string(text)
}

func (p *process) guide() {
	has(p.t, "the guide", p.read("docs", "guide.md"), "schedule", "GitHub", "stop", "virtual time")
	has(p.t, "the page on deploying", p.read("docs", "deploying.md"), "What may change", "side by side", "30 seconds after its last renewal")
	has(p.t, "the page on the API", p.read("docs", "api.md"), "curl -H", "/api/v1/instances")
}

func (p *process) reasons() {
	p.startInstance("refund", "refund-9", `{"customer":"customer7","cents":1}`, "running")
	check.Equal(p.t, "a misspelt field", p.post(instance("refund-9")+"/suspend", `{"reson":"bank"}`).status, http.StatusUnprocessableEntity)
	form := p.call(http.MethodPost, instance("refund-9")+"/suspend", "reason=bank", "Content-Type", "application/x-www-form-urlencoded")
	check.Equal(p.t, "a form", form.status, http.StatusUnsupportedMediaType)
	check.Equal(p.t, "a reason", p.post(instance("refund-9")+"/suspend", `{"reason":"the bank is closed"}`).status, http.StatusNoContent)
	has(p.t, "the instance", p.until("refund-9", "suspended"), "the bank is closed")
	has(p.t, "the answer to an unknown parameter", p.get("/api/v1/instances?foo=1").body, "allowed", "page_size")
	check.Equal(p.t, "limit", p.get("/api/v1/instances?limit=1").status, http.StatusOK)
}

// webhook sends an event as GitHub does.
func (p *process) webhook(event, delivery, body string) answered {
	mac := hmac.New(sha256.New, []byte("a secret of sixteen or more"))
	mac.Write([]byte(body))
	return p.call(http.MethodPost, "/hooks/github", body, "X-GitHub-Event", event, "X-GitHub-Delivery", delivery,
		"X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

func (p *process) ping() {
	for i, event := range []string{"ping", "push"} {
		if got := p.webhook(event, fmt.Sprint("delivery-", i), `{"after":"`+event+`"}`); got.status/100 != 2 {
			p.t.Fatalf("%s: %d %s", event, got.status, got.body)
		}
	}
	list := func() string { return p.get("/api/v1/instances?orchestration=deploy").body }
	// The push comes after the ping.
	eventually(p.t, "the push is deployed", func() bool { return strings.Contains(list(), "released push") })
	lacks(p.t, "the list of deployments", list(), "released ping")
}

func (p *process) metrics() {
	mounted := start(p.t, p.programs, p.saas, []string{"ABIDE_STORE=pebble://" + filepath.Join(p.t.TempDir(), "data")}, "metrics", "127.0.0.1:0")
	got := mounted.get("/metrics")
	check.Equal(p.t, "the status of /metrics", got.status, http.StatusOK)
	has(p.t, "the metrics", got.body, "abide_")
}

func (p *process) storeInUse() {
	store := ""
	for _, v := range p.cmd.Env {
		if s, ok := strings.CutPrefix(v, "ABIDE_STORE="); ok {
			store = s
		}
	}
	got := command(p.t, p.abide, []string{"ABIDE_STORE=" + store}, "instances", "list")
	if got.code != 0 {
		p.t.Errorf("instances list: exit code %d: %s", got.code, got.err)
	}
}

func (p *process) suspendPrints() {
	p.startInstance("refund", "refund-14", `{"customer":"customer7","cents":1}`, "running")
	has(p.t, "suspend", p.ok("instances", "suspend", "refund-14"), "suspended")
	p.ok("instances", "resume", "refund-14")
	has(p.t, "cancel", p.ok("instances", "cancel", "refund-14"), "cancelled")
}

func (p *process) lists() {
	for i := range 51 {
		p.startInstance("trial", fmt.Sprint("trial-14b-", i), customer)
	}
	p.until("trial-14b-50", "running")
	p.ok("instances", "raise", "trial-14b-50", "cancelled")
	p.until("trial-14b-50", "completed")
	list := p.ok("instances", "list", "--orchestration", "trial")
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "trial-14b-50 ") {
			has(p.t, "the row of an ended instance", line, `"cancelled"`)
			lacks(p.t, "the row of an ended instance", line, "in trial")
			return
		}
	}
	p.t.Errorf("the list lacks the newest:\n%s", list)
}

func (p *process) misspelt() {
	got := p.cli("instances", "start", "trail", "--id", "misspelt")
	check.Equal(p.t, "the exit code", got.code, 2)
	has(p.t, "the message", got.err, "trail", "not served")
}

func (p *process) versions() {
	got := p.cli("instances", "start", "renewal", "--id", "renewal-14")
	check.Equal(p.t, "the exit code", got.code, 2)
	has(p.t, "the message", got.err, `its versions are "2"`)
	p.ok("instances", "start", "renewal", "--id", "renewal-14", "--version", "2")
	p.until("renewal-14", "completed")
}

func (p *process) datedID() {
	p.ok("schedules", "trigger", "nightly")
	eventually(p.t, "the report is there", func() bool { return strings.Contains(p.get("/api/v1/instances?orchestration=report").body, `"id"`) })
	body := p.get("/api/v1/instances?orchestration=report").body
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !strings.Contains(id, "-20") && !strings.Contains(id, "/20") {
		p.t.Errorf("the ID %q has no date", id)
	}
}

func (p *process) slash() {
	got := p.get("/api/v1/instances/default/a/b")
	check.Equal(p.t, "the status", got.status, http.StatusNotFound)
	has(p.t, "the answer", got.body, "%2F")
}

// TestFirstHourInVirtualTime plays the tests that a newcomer writes.
func TestFirstHourInVirtualTime(t *testing.T) {
	t.Parallel()
	built := build(t)
	test := func(name, file string) error {
		return built.goes("test", map[string]string{"firsthour_env_test.go": built.compat("env_test.go"), "firsthour_test.go": file},
			"-count=1", "-run", "^"+name+"$", "./examples/saas")
	}
	t.Run("08 schedules are tested in virtual time", func(t *testing.T) {
		check.OK(t, test("TestScheduleInVirtualTime", "virtual/schedule_test.go"))
	})
	t.Run("14g the wall clock in an orchestration fails its test", func(t *testing.T) {
		err := test("TestWallClock", "virtual/clock_test.go")
		if err == nil {
			t.Fatal("the test of an orchestration that reads the wall clock passes")
		}
		has(t, "the test's output", err.Error(), "abide.Now")
	})
}

func (p *process) forkTimes() {
	p.startInstance("refund", "refund-fork", `{"customer":"customer7","cents":1}`, "running")
	p.ok("instances", "fork", "refund-fork", "--event", "3", "--id", "refund-forked")
	p.until("refund-forked", "running")
	lacks(p.t, "the history of the fork", p.ok("instances", "show", "refund-forked"), "+-")
}

func (p *process) docsVersion() {
	lacks(p.t, "the documentation", p.get("/docs").body, "Version .")
}

func (p *process) panicMessage() {
	p.startInstance("boom", "boom-14", "", "failed")
	for line := range strings.Lines(p.ok("instances", "show", "boom-14")) {
		if strings.HasPrefix(line, "error") {
			has(p.t, "the error", line, "the boiler burst")
			lacks(p.t, "the error", line, "goroutine", "runtime/debug")
		}
	}
	has(p.t, "the history as JSON", p.get(instance("boom-14")+"/history").body, "firsthour_lab.go")
}
