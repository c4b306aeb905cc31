package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/store"
)

// decline starts an order whose card is declined, and waits until it has failed.
func (w *world) decline(id, tenant, card string) abide.Ref {
	w.t.Helper()
	w.done("/instances/new", "orchestration", "order", "id", id, "tenant", tenant, "input", fmt.Sprintf(`{"card":%q}`, card))
	check.OK(w.t, approved.Raise(w.t.Context(), w.engine, id, []byte(`true`), abide.Tenant(tenant)))
	ref := abide.Ref{Tenant: tenant, ID: id}
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Failed })
	return ref
}

func TestTheListSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.decline("order-1", "default", "declined")
	w.start("broken", "order-2", "", abide.Stalled)
	for _, nap := range []struct {
		id, why string
		ask     func(context.Context, abide.Ref, string) error
		status  abide.Status
	}{
		{"nap-1", "lunch", w.engine.Suspend, abide.Suspended},
		{"nap-2", "dinner", w.engine.Terminate, abide.Terminated},
		{"nap-3", "supper", w.engine.Cancel, abide.Cancelled},
	} {
		ref := w.start("nap", nap.id, "", abide.Running)
		check.OK(t, nap.ask(t.Context(), ref, nap.why))
		w.until(ref, func(i abide.Info) bool { return i.Status == nap.status })
	}
	list := w.see("/instances")
	for _, why := range []string{"the card was declined", "a bug", "lunch", "dinner", "supper"} {
		w.contains(list, `class="why">`, why)
	}
	// The text that the code has set is about what it did, and it does nothing any more.
	w.lacks(list, "charging")
	w.lacks(w.see("/instances/default/order-1"), `class="said">charging`)
	overview := w.see("/")
	for _, why := range []string{"activity &#34;charge&#34;, attempt 1: the card was declined", "panic: a bug", "lunch", "dinner", "cancelled: supper"} {
		w.contains(overview, `<span class="last">`+why+"</span>")
	}
	w.lacks(overview, "charging")
	w.lacks(w.see("/instances?status=completed"), "Why")
}

func TestSeveralStatuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.decline("order-1", "default", "declined")
	w.start("broken", "order-2", "", abide.Stalled)
	w.start("nap", "nap-1", "", abide.Running)
	for _, query := range []string{"status=failed,stalled", "status=failed&status=stalled"} {
		list := w.see("/instances?" + query)
		w.contains(list, ">order-1<", ">order-2<", `value="failed" checked`, `value="stalled" checked`, "status=failed%2Cstalled")
		w.lacks(list, ">nap-1<")
	}
	w.contains(w.see("/instances/matching?status=failed,stalled"), "with status failed or stalled")
	w.contains(w.see("/instances?status=failed,odd"), "There is no status odd")
}

func TestFailuresAreGroupedByReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.contains(w.see("/"), "Nothing needs a person")
	for i := range 3 {
		w.decline(fmt.Sprint("order-", i), "default", "declined")
	}
	w.decline("order-acme", "acme", "declined")
	w.start("broken", "bug-1", "", abide.Stalled)
	w.start("nap", "nap-1", "", abide.Running)
	front := w.see("/")
	w.contains(front, "4 failed in the last hour", "4 ×</span> activity &#34;charge&#34;, attempt 1", "1 stalled", "1 ×</span>")

	group := link(t, front, `4 ×`)
	list := w.see(group)
	w.contains(list, ">order-0<", ">order-acme<", "Only instances that ended since -1h with the reason", "Without this")
	w.lacks(list, ">nap-1<", "Change all that match")
	w.lacks(w.see("/instances?status=failed&ended=%2B1h"), ">order-0<")
	w.lacks(w.see("/instances?status=failed&why=another"), ">order-0<")
	w.contains(w.see("/instances?ended=nonsense"), "is no time")

	w.who = acme
	w.contains(w.see("/"), "1 failed in the last hour")
	w.lacks(w.see("/"), "stalled</span>")
}

// TestNumbersAgree: what was cancelled or terminated is not failed, and the menu says what needs
// a person.
func TestNumbersAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	w.samples = []telemetry.Sample{{At: now.Add(-2 * time.Second)}, {At: now, Failed: 1, Cancelled: 7}}
	check.OK(t, w.engine.Terminate(t.Context(), w.start("nap", "nap-1", "", abide.Running), ""))
	w.until(abide.Ref{ID: "nap-1"}, func(i abide.Info) bool { return i.Status == abide.Terminated })
	w.start("elsewhere", "waits-1", "")
	w.start("broken", "bug-1", "", abide.Stalled)
	w.eventually(func() bool { return strings.Contains(w.see("/"), "oldest: queue turns, elsewhere") })
	front := w.see("/")
	w.contains(front, "<strong>1</strong> <span>terminated</span>", "<strong>0</strong> <span>cancelled</span>", "<strong>0</strong> <span>failed</span>",
		"failed <strong>1</strong>", "cancelled or terminated <strong>7</strong>", "/instances?orchestration=elsewhere",
		`<span class="status alarm" title="stalled">1`, "Tenant timers and schedules")
	w.lacks(w.see("/workers"), "Gone in the last hour")
	dead := roster.Worker{ID: "dead", Name: "batch", Host: "host-17", PID: 4711, SeenAt: now.Add(-10 * time.Minute), StartedAt: now.Add(-time.Hour)}
	check.OK(t, w.store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{dead.Put()}}))
	w.contains(w.see("/workers"), "Gone in the last hour", "host-17", "4711")
}
