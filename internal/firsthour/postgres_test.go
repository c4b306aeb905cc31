//go:build unix

package firsthour

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
)

// TestFirstHourOnPostgreSQL plays the frictions of a newcomer that PostgreSQL has.
func TestFirstHourOnPostgreSQL(t *testing.T) {
	t.Parallel()
	built := build(t)
	server := testenv.Postgres(t)
	t.Run("01 a rolling deploy with a guarded change stalls nothing", func(t *testing.T) { rollingDeploy(t, built, server.Database(t)) })
	t.Run("02 a start of a process that ends is noticed at once", func(t *testing.T) { shortLived(t, built, server.Database(t)) })
	t.Run("10 after kill -9 the work goes on when the lease ends", func(t *testing.T) { killed(t, built, server.Database(t)) })
}

// rollingDeploy has a process without a change and one with it, guarded, on one database.
func rollingDeploy(t *testing.T, built programs, store string) {
	old := serveSaas(t, built, store, "BUILD=old")
	next := serveSaas(t, built, store, "BUILD=new", "WELCOME=1")
	const n = 12
	for i := range n {
		next.startInstance("signup", fmt.Sprint("signup-", i), `"customer7@example.com"`)
	}
	for i := range n {
		next.until(fmt.Sprint("signup-", i), "running", "stalled", "completed")
		by := []*process{old, next}[i%2]
		if got := by.post(instance(fmt.Sprint("signup-", i))+"/events/cancelled", "null"); got.status/100 != 2 {
			t.Errorf("raise: %d %s", got.status, got.body)
		}
	}
	old.end(syscall.SIGTERM)
	stalled := 0
	for i := range n {
		if body := next.until(fmt.Sprint("signup-", i), "completed", "stalled"); strings.Contains(body, "stalled") {
			stalled++
		}
	}
	if stalled > 0 {
		t.Errorf("%d of %d instances have stalled", stalled, n)
	}
}

// soon is how long a process may take to notice what another one has committed; the next look without a
// notification is after 30 s.
const soon = 5 * time.Second

// shortLived starts and raises by commands, which end at once.
func shortLived(t *testing.T, built programs, store string) {
	service := serveSaas(t, built, store)
	env := []string{"ABIDE_STORE=" + store}
	late := 0
	noticed := func(id, event string, args ...string) {
		t.Helper()
		got := command(t, built.abide, env, args...)
		if got.code != 0 {
			t.Fatalf("abide %v: %s%s", args, got.out, got.err)
		}
		ended := time.Now()
		eventually(t, id+" has "+event, func() bool {
			if strings.Contains(service.get(instance(id)+"/history").body, event) {
				return true
			}
			if time.Since(ended) > soon {
				late++
				return true
			}
			return false
		})
	}
	for i := range 6 {
		noticed(fmt.Sprint("short-", i), "TimerCreated", "instances", "start", "signup", "--id", fmt.Sprint("short-", i), "--input", `"customer7@example.com"`)
	}
	for i := range 3 {
		noticed(fmt.Sprint("short-", i), "EventReceived", "instances", "raise", fmt.Sprint("short-", i), "cancelled")
	}
	if late > 0 {
		t.Errorf("%d of 9 were not noticed within %v", late, soon)
	}
}

// killed kills a process with work under way, and has another one go on. The lease is short here; the
// default is 30 s.
func killed(t *testing.T, built programs, store string) {
	first := serveSaas(t, built, store, "LEASE=2s")
	first.startInstance("long", "long-10", "400")
	eventually(t, "it has begun", func() bool {
		return strings.Contains(first.get(instance("long-10")+"/history").body, "ActivityCompleted")
	})
	first.end(syscall.SIGKILL)
	second := serveSaas(t, built, store, "LEASE=2s")
	eventually(t, "it goes on", func() bool { return strings.Contains(second.get(instance("long-10")+"/waits").body, "cool-down") })
}
