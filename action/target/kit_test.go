package target_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
)

// helper is the variable that makes this binary one of the programs in helpers.
const helper = "TARGET_TEST_HELPER"

// quick has a helper that was built to find races end at once, and not after a second.
const quick = "GORACE=atexit_sleep_ms=0"

// helpers are programs that commands run, by name.
var helpers = map[string]func() error{}

func TestMain(m *testing.M) {
	name := os.Getenv(helper)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := helpers[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// scheduled is a run of an action whose time has come.
func scheduled(payload string) action.Run {
	r := action.Run{Action: action.Action{
		ID: "0190-1", Tenant: "acme", Slug: "billing", Target: "t", Attempt: 1, Status: action.Running,
		Trigger: action.Trigger{Kind: action.Scheduled, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
	}}
	if payload != "" {
		r.Action.Payload = []byte(payload)
	}
	return r
}

// webhook is a run of an action that arrived.
func webhook(body string, header map[string]string) action.Run {
	r := scheduled("")
	r.Action.Trigger.Kind, r.Action.Trigger.Header, r.Action.Trigger.Size = action.Webhook, header, len(body)
	r.Body = []byte(body)
	return r
}

// ok returns what was made without an error.
func ok[T any](t *testing.T, v T, err error) T {
	t.Helper()
	check.OK(t, err)
	return v
}

// fails checks that there is an error, on one line, that says all of these.
func fails(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), "target: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v, want one line of this package", err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %q, want one that says %q", err, text)
		}
	}
}

// refuses checks the error of a constructor.
func refuses(t *testing.T, err error, says ...string) {
	t.Helper()
	check.ErrorOf(t, "target", err, action.ErrInvalid, says...)
}
