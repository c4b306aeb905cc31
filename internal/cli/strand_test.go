package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store/memstore"
)

// claim and decision are the types that the mistakes of TestNoMistakeStrands do not fit.
type claim struct {
	Cents int           `json:"cents"`
	Tags  []string      `json:"tags,omitempty"`
	Wait  time.Duration `json:"wait,omitempty"`
}

type decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
}

var (
	claimDecided = abide.NewEvent[decision]("decided")
	claimPaid    = abide.NewEvent[int]("paid")
	claimPay     = abide.NewActivity("pay", func(_ context.Context, cents int) (string, error) { return fmt.Sprint(cents), nil })
	claimFlow    = abide.NewOrchestration("claim", func(ctx abide.Context, in claim) (string, error) {
		d, err := claimDecided.Wait(ctx)
		if err != nil || !d.Approved {
			return "refused", err
		}
		if _, err := claimPaid.Wait(ctx, abide.Timeout(24*time.Hour)); err != nil {
			return "", err
		}
		return claimPay.Call(ctx, in.Cents)
	})
	claimNew = abide.NewOrchestration("claim", func(ctx abide.Context, in claim) (string, error) {
		return claimPay.Call(ctx, in.Cents)
	}, abide.Version("2"))
)

// desk is a program that serves claims, and the four ways to reach it.
type desk struct {
	*testing.T
	engine *abide.Engine
	url    string
	rnd    *rand.Rand
	done   []string
}

// TestNoMistakeStrands makes random mistakes with names, payloads, options and their order, through Go,
// HTTP, the command line and the page. Each instance that is left can be brought to its end with what its
// page offers: a payload is corrected, an event is raised with what the form proposes, what waits for
// a worker is terminated.
func TestNoMistakeStrands(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	d := &desk{T: t, rnd: rand.New(rand.NewPCG(seed, 0))}
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = st.Close() })
	log := slog.New(slog.DiscardHandler)
	var err error
	d.engine, err = abide.New(st, abide.Config{Register: []abide.Definition{claimFlow, claimNew, claimPay}, Logger: log, WorkerName: "claims"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.engine.Close() })
	guard, err := auth.New(auth.Config{Store: st, Logger: log, Anonymous: &auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Store: st, Engine: d.engine, Auth: guard, Logger: log, Page: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	d.url = web.URL

	mistakes := 1_000
	for range mistakes {
		d.mistake()
	}
	left := d.wayOut()
	t.Logf("%d mistakes, %d instances had to be helped", mistakes, left)
	if left == 0 {
		t.Error("no instance had to be helped, so nothing was shown")
	}
}

func pick[T any](d *desk, values ...T) T { return values[d.rnd.IntN(len(values))] }

// payload is JSON that may fit, or not, or is none.
func (d *desk) payload() string {
	return pick(d,
		`{"cents": 5}`, `{"cents": "five"}`, `{"cents": 1.5}`, `{"cents": 5, "wait": "48h"}`, `{"cents": 5, "tags": "a"}`, `{"cnets": 5}`,
		`{"approved": true, "by": "an operator"}`, `{"approved": "yes"}`, `{"approved": true, "by": 7}`, `{"data": {"approved": true}}`,
		`7`, `"seven"`, `7e3`, `null`, `[]`, `{}`, ``, `true`, `99999999999999999999`,
	)
}

// mistake does something that a person might do, right or wrong. What is refused is fine; what breaks the
// server is not.
func (d *desk) mistake() {
	id := fmt.Sprint("c", d.rnd.IntN(60))
	name := pick(d, "claim", "claim", "claim", "clam")
	version := pick(d, "", "", "", "2", "9")
	event := pick(d, "decided", "decided", "paid", "decied")
	data, unchecked := d.payload(), d.rnd.IntN(2) == 0
	what := pick(d, "start", "start", "start", "raise", "raise", "raise", "suspend", "resume", "correct", "cancel", "restart")
	how := pick(d, "go", "http", "cli", "page")
	d.done = append(d.done, fmt.Sprintf("%s: %s %s %s@%s %s %s unchecked=%v", how, what, id, name, version, event, data, unchecked))
	switch how {
	case "go":
		d.byGo(what, id, name, version, event, data, unchecked)
	case "http":
		d.byHTTP(what, id, name, version, event, data, unchecked)
	case "cli":
		d.byCLI(what, id, name, version, event, data, unchecked)
	default:
		d.byPage(what, id, name, version, event, data, unchecked)
	}
}

func (d *desk) byGo(what, id, name, version, event, data string, unchecked bool) {
	ctx, ref := d.Context(), abide.Ref{ID: id}
	switch what {
	case "start":
		_, _ = d.engine.Start(ctx, abide.StartRequest{Ref: ref, Orchestration: name, Version: version, Input: []byte(data), Unchecked: unchecked})
	case "raise":
		_, _ = d.engine.Raise(ctx, abide.RaiseRequest{Ref: ref, Event: event, Data: []byte(data), Unchecked: unchecked})
	case "suspend":
		_ = d.engine.Suspend(ctx, ref, "lunch")
	case "resume":
		_ = d.engine.Resume(ctx, ref)
	case "correct":
		_ = d.engine.Correct(ctx, ref, abide.Correction{Data: []byte(data), Unchecked: unchecked})
	case "cancel":
		_ = d.engine.Cancel(ctx, ref, "enough")
	case "restart":
		_ = d.engine.Restart(ctx, ref)
	}
}

func (d *desk) byHTTP(what, id, name, version, event, data string, unchecked bool) {
	at := d.url + "/api/v1/instances"
	body := map[string]any{"unchecked": unchecked}
	if data != "" {
		body["input"] = json.RawMessage(data)
	}
	switch what {
	case "start":
		body["orchestration"], body["version"], body["id"] = name, version, id
		text, err := json.Marshal(body)
		if err != nil {
			d.Fatal(err)
		}
		d.send(at, "application/json", string(text))
	case "raise":
		d.send(fmt.Sprintf("%s/default/%s/events/%s?unchecked=%v", at, id, event, unchecked), "application/json", data)
	case "correct":
		d.send(at+"/default/"+id+"/correct", "application/json", fmt.Sprintf(`{"data": %s, "unchecked": %v}`, max(data, "0"), unchecked))
	default:
		d.send(at+"/default/"+id+"/"+what, "application/json", `{}`)
	}
}

func (d *desk) byCLI(what, id, name, version, event, data string, unchecked bool) {
	args := []string{"instances", what}
	switch what {
	case "start":
		args = append(args, name, "--id", id, "--version", version, "--input", data)
	case "raise":
		args = append(args, id, event, "--data", data)
	case "correct":
		args = append(args, id, "--data", data)
	default:
		args = append(args, id)
	}
	if unchecked && (what == "start" || what == "raise" || what == "correct") {
		args = append(args, "--unchecked")
	}
	if what == "restart" {
		args = append(args, "--yes")
	}
	code, _, stderr := invoke(d.T, append(args, "--server", d.url)...)
	if code == ExitFailure || code == ExitUnreachable {
		d.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
}

func (d *desk) byPage(what, id, name, version, event, data string, unchecked bool) {
	form := url.Values{}
	if unchecked {
		form.Set("unchecked", "yes")
	}
	at := d.url + "/instances/default/" + id + "/" + what
	switch what {
	case "start":
		at = d.url + "/instances/new"
		form.Set("orchestration", strings.TrimSuffix(name+"@"+version, "@"))
		form.Set("id", id)
		form.Set("input", data)
	case "raise":
		form.Set("name", event)
		form.Set("data", data)
	case "correct":
		form.Set("data", data)
	}
	d.send(at, "application/x-www-form-urlencoded", form.Encode())
}

// send sends a request, which may be refused.
func (d *desk) send(at, kind, body string) string {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodPost, at, bytes.NewReader([]byte(body)))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	return d.answer(r)
}

func (d *desk) answer(r *http.Request) string {
	d.Helper()
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		d.Fatal(err)
	}
	if a.StatusCode >= http.StatusInternalServerError {
		d.Fatalf("%s %s: %s\n%s", r.Method, r.URL, a.Status, text)
	}
	return string(text)
}

func (d *desk) see(path string) string {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.url+path, http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	return d.answer(r)
}

// wayOut brings all instances to their end with what their pages offer, and returns how many needed it.
func (d *desk) wayOut() int {
	d.Helper()
	helped := map[string]bool{}
	for range 20 {
		open := 0
		for info, err := range d.engine.All(d.Context(), abide.Filter{Limit: 100}) {
			if err != nil {
				d.Fatal(err)
			}
			if !info.Status.Ended() {
				open++
				helped[info.Ref.ID] = true
				d.help(info)
			}
		}
		if open == 0 {
			return len(helped)
		}
	}
	for info, err := range d.engine.All(d.Context(), abide.Filter{Limit: 100}) {
		if err == nil && !info.Status.Ended() {
			d.Errorf("%s is %s: %s\n%s", info.Ref.ID, info.Status, info.Reason, strings.Join(d.about(info.Ref.ID), "\n"))
		}
	}
	return len(helped)
}

// about returns what was done to an instance.
func (d *desk) about(id string) []string {
	var list []string
	for _, line := range d.done {
		if strings.Contains(line, " "+id+" ") {
			list = append(list, line)
		}
	}
	return list
}

var (
	proposedName = regexp.MustCompile(`name="name" value="([^"]*)"`)
	proposedData = regexp.MustCompile(`(?s)<textarea id="f-data"[^>]*>(.*?)</textarea>`)
	likeThis     = regexp.MustCompile(`JSON such as ([^<]*)<`)
)

// help does the next thing that the page of an instance offers, and waits until the instance has changed
// or its change is known to take longer.
func (d *desk) help(info abide.Info) {
	d.Helper()
	at := "/instances/default/" + info.Ref.ID
	page := d.see(at)
	offers := func(verb string) bool { return strings.Contains(page, `href="`+at+"/"+verb) }
	form := url.Values{}
	verb := ""
	switch {
	case info.Status == abide.Stalled && offers("correct"):
		verb = "correct"
		if m := likeThis.FindStringSubmatch(d.see(at + "/correct")); m != nil {
			form.Set("data", html.UnescapeString(m[1]))
		} else {
			form.Set("discard", "yes")
		}
	case info.Status == abide.Stalled:
		d.Errorf("%s has stalled, and its page offers no correction: %s\n%s", info.Ref.ID, info.Reason, strings.Join(d.about(info.Ref.ID), "\n"))
		verb = "terminate"
	case info.Status == abide.Suspended && offers("resume"):
		verb = "resume"
	case len(info.Awaited) > 0 && offers("raise"):
		verb = "raise"
		proposed := d.see(at + "/raise?name=" + info.Awaited[0])
		name, data := proposedName.FindStringSubmatch(proposed), proposedData.FindStringSubmatch(proposed)
		if name == nil || data == nil || name[1] != info.Awaited[0] {
			d.Fatalf("the form of %s proposes nothing: %s", info.Ref.ID, proposed)
		}
		form.Set("name", name[1])
		form.Set("data", html.UnescapeString(data[1]))
	case offers("terminate"): // no worker serves it
		verb = "terminate"
	default:
		d.Fatalf("the page of %s, which is %s, offers nothing: %s", info.Ref.ID, info.Status, page)
	}
	d.send(d.url+at+"/"+verb, "application/x-www-form-urlencoded", form.Encode())
	ctx, cancel := context.WithTimeout(d.Context(), time.Second)
	defer cancel()
	_, _ = d.engine.WaitChange(ctx, info.Ref, info.Revision) // or it is looked at again
}
