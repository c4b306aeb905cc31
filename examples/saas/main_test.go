package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
	"github.com/abidehq/abide/action"

	_ "github.com/abidehq/abide/store/memstore"
)

var customer7 = Customer{ID: "customer7", Mail: "customer7@example.com", Plan: "free"}

// mails stubs the mails of a test.
func mails(env *abidetest.Env) *abidetest.Stubbed[Mail, abide.None] {
	return abidetest.Stub(env, SendMail, func(context.Context, Mail) (abide.None, error) { return abide.None{}, nil })
}

// guide: test
func TestTrialExpires(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		sent := mails(env)
		began := env.Now()
		if got := abidetest.Start(env, Trial, customer7).Result(); got != "expired" {
			t.Errorf("got %q", got)
		}
		if took := env.Now().Sub(began); took != 14*day || sent.Calls() != 3 {
			t.Errorf("it took %v and %d mails", took, sent.Calls())
		}
	})
}

// end

func TestTrialIsCancelled(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		sent := mails(env)
		trial := abidetest.Start(env, Trial, customer7)
		env.After(8*day, func() { abidetest.Raise(env, Cancelled, trial.ID(), abide.None{}) })
		if got := trial.Result(); got != "cancelled" || sent.Calls() != 1 {
			t.Errorf("got %q after %d mails", got, sent.Calls())
		}
	})
}

// TestSubscription: an upgrade starts the billing, which goes on from month to month.
func TestSubscription(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		mails(env)
		charges := abidetest.Stub(env, Charge, func(context.Context, ChargeIn) (string, error) { return "paid", nil })
		trial := abidetest.Start(env, Trial, customer7)
		env.After(8*day, func() { abidetest.Raise(env, Upgraded, trial.ID(), "pro") })
		if got := trial.Result(); got != "upgraded to pro" {
			t.Errorf("got %q", got)
		}
		env.Settle()
		bills := abidetest.Find(env, Billing, "billing-customer7")
		env.After(75*day, func() { abidetest.Raise(env, Cancelled, "billing-customer7", abide.None{}) })
		if got := bills.Result(); got != "cancelled after 3 months" {
			t.Errorf("got %q", got)
		}
		if months := charges.Inputs(); len(months) != 3 || months[2].Month != 3 {
			t.Errorf("charged %v", months)
		}
		if info := bills.Info(); info.Execution != 3 {
			t.Errorf("it is execution %d", info.Execution)
		}
	})
}

// TestDunning: a charge that fails is tried again, then the customer is reminded.
func TestDunning(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		sent := mails(env)
		charges := abidetest.Stub(env, Charge, func(context.Context, ChargeIn) (string, error) { return "", errors.New("card declined") })
		charge := abidetest.Start(env, Billing, Bill{Customer: customer7})
		if got := charge.Result(); got != "suspended for lack of payment" || sent.Calls() != 3 || charges.Calls() < 4 {
			t.Errorf("got %q after %d mails and %d charges", got, sent.Calls(), charges.Calls())
		}
	})
}

// TestProvisioning: what was made is destroyed, the latest first, when a part fails.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		abidetest.Stub(env, Create, func(_ context.Context, r Resource) (string, error) {
			if r.Kind == "domain" && r.Customer == "customer8" {
				return "", abide.Final(errors.New("the domain is taken"))
			}
			return r.Kind, nil
		})
		destroyed := abidetest.Stub(env, Destroy, func(context.Context, string) (abide.None, error) { return abide.None{}, nil })
		if got := abidetest.Start(env, Provision, customer7).Result(); !slices.Equal(got, []string{"database", "bucket", "domain"}) {
			t.Errorf("got %q", got)
		}
		if err := abidetest.Start(env, Provision, Customer{ID: "customer8"}).Err(); !strings.Contains(err.Error(), "the domain is taken") {
			t.Errorf("got %v", err)
		}
		if got := destroyed.Inputs(); !slices.Equal(got, []string{"bucket", "database"}) {
			t.Errorf("destroyed %q", got)
		}
	})
}

func TestNews(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		sent := mails(env)
		to := slices.Repeat([]string{"customer@example.com"}, 200)
		if got := abidetest.Start(env, News, Newsletter{To: to, Text: "hello"}).Result(); got != 200 || sent.Calls() != 200 {
			t.Errorf("got %d, %d mails", got, sent.Calls())
		}
	})
}

func TestRefund(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		for id, d := range map[string]Decision{"yes": {Approved: true, By: "the manager"}, "no": {By: "the manager"}} {
			abidetest.Start(env, Refund, RefundIn{Customer: id}, abide.ID(id))
			abidetest.Raise(env, Decided, id, d)
		}
		late := abidetest.Start(env, Refund, RefundIn{})
		for id, want := range map[string]string{"yes": "approved by the manager", "no": "refused by the manager", late.ID(): "refused: nobody decided"} {
			if got := abidetest.Find(env, Refund, id).Result(); got != want {
				t.Errorf("%s: got %q, want %q", id, got, want)
			}
		}
	})
}

// guide: testactions
// TestScheduleAndWebhook: the report starts at 02:30 in Berlin, a push starts a deployment, and a
// ping does not.
func TestScheduleAndWebhook(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(definitions...)
		actions, err := newActions(env.Store(), env.Client(), env.Config.Logger)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- actions.Run(t.Context()) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if _, err := actions.AddSchedule(t.Context(), nightly); err != nil {
			t.Fatal(err)
		}
		hooks, err := newHooks(actions, "secret", env.Config.Logger)
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(2 * time.Hour) // to 03:00 in Berlin
		if got := abidetest.Find(env, Report, "report-2000-01-01").Result(); got != "report of 1999-12-31" {
			t.Errorf("got %q", got)
		}
		if got := deliver(hooks, "ping", `{"zen": "Design for failure."}`); got != http.StatusNoContent {
			t.Errorf("a ping is answered with %d", got)
		}
		if got := deliver(hooks, "push", `{"after": "6d1f2c"}`); got != http.StatusAccepted {
			t.Errorf("a push is answered with %d", got)
		}
		env.Advance(2 * time.Minute)
		var results []string
		for a, err := range actions.All(t.Context(), action.Filter{Slug: "github"}) {
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, abidetest.Find(env, Deploy, "deploy-"+a.ID).Result())
		}
		if !slices.Equal(results, []string{"released 6d1f2c"}) {
			t.Errorf("got %q", results)
		}
	})
}

// end

// deliver sends a webhook as GitHub does, and returns the status of the answer.
func deliver(hooks http.Handler, event, body string) int {
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(body))
	r := httptest.NewRequest(http.MethodPost, "/hooks/github", strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-GitHub-Delivery", event+"-1")
	r.Header.Set("X-GitHub-Event", event)
	answer := httptest.NewRecorder()
	hooks.ServeHTTP(answer, r)
	return answer.Code
}

// TestRun serves the whole program, and stops it while a request is under way.
func TestRun(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, abide.Config{Store: "memory://"}, listener, "secret") }()
	base := "http://" + listener.Addr().String()
	post := func(path, body string) int {
		t.Helper()
		resp, err := http.Post(base+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := post("/signup", `{"id": "customer7"}`); got != http.StatusCreated {
		t.Errorf("signup: %d", got)
	}
	if got := post("/signup", `{"id": "customer7"}`); got != http.StatusConflict {
		t.Errorf("the second signup: %d", got)
	}
	if got := post("/abide/api/v1/instances/default/trial-customer7/events/upgraded", `"pro"`); got/100 != 2 {
		t.Errorf("the event: %d", got)
	}

	// A request whose handler waits for the rest of the body when the program is told to stop: the
	// client sends a body only when the handler reads it.
	body, send := net.Pipe()
	answered := make(chan int, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/signup", body)
		r.Header.Set("Expect", "100-continue")
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		defer resp.Body.Close()
		answered <- resp.StatusCode
	}()
	if _, err := send.Write([]byte(`{"id": "late"`)); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := send.Write([]byte(`}`)); err != nil {
		t.Fatal(err)
	}
	_ = send.Close()
	if got := <-answered; got != http.StatusCreated {
		t.Errorf("a request under way is answered with %d", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestGuide: docs/guide.md has the code of this example, as it is, and no other.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	quoted := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range bytes.Split(text, []byte("// guide: "))[1:] {
			name, code, _ := strings.Cut(string(part), "\n")
			if strings.HasPrefix(name, `"`) || file == "main_test.go" && strings.Contains(name, `)`) {
				continue // this function
			}
			code, _, _ = strings.Cut(code, "\n// end\n")
			if !strings.Contains(string(guide), "```go\n"+strings.TrimSpace(code)+"\n```") {
				t.Errorf("docs/guide.md does not have the part %q of %s as it is", name, file)
			}
			quoted++
		}
	}
	if blocks := strings.Count(string(guide), "```go\n"); blocks != quoted || quoted == 0 {
		t.Errorf("docs/guide.md has %d blocks of Go, and %d parts of the example are quoted", blocks, quoted)
	}
}
