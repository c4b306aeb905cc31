package web_test

import (
	"fmt"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 60 {
		w.done("/instances/new", "orchestration", "nap", "id", fmt.Sprintf("cust-%04d", i), "tags", fmt.Sprintf("region=eu plan=%d", i%2))
	}
	w.start("order", "order-1", "", abide.Running)
	check.OK(t, approved.Raise(t.Context(), w.engine, "order-1", []byte(`1`)))
	w.until(abide.Ref{ID: "order-1"}, func(i abide.Info) bool { return i.Status == abide.Completed })

	list := w.see("/instances?prefix=cust-000")
	w.contains(list, ">cust-0007<", "10 instances in all")
	w.lacks(list, ">cust-0010<", ">order-1<")
	w.contains(w.see("/instances?parent=order-1"), ">order-1-parcel<", "1 instance in all")
	w.contains(w.see("/instances?tag=region%3Deu,plan%3D1"), "30 instances in all", ">cust-0059<", "tag=plan%3D1")
	w.lacks(w.see("/instances?tag=region%3Deu,plan%3D1"), ">cust-0058<")
	w.contains(w.see("/instances?id=cust-005"), "There is no instance <code>cust-005</code>", "These begin with it", ">cust-0059<")
	w.contains(w.see("/instances?from=yesterday"), "-24h for 24 hours ago")
	w.contains(w.see("/instances/default/cust-0001"), `href="/instances?orchestration=nap"`, "tag=region%3Deu")
	w.contains(w.see("/instances/matching?prefix=cust-000"), "Change 10 instances", "with an ID that begins with cust-000")
	if a := w.post("/instances/matching", "kind", "resume", "why", "x", "status", "failed", "counted", "1"); a.status != 400 {
		t.Errorf("all with a reason: status %d", a.status)
	}

	// To the second page and back.
	first := w.see("/instances?orchestration=nap")
	w.contains(first, "60 instances in all", ">cust-0059<")
	w.lacks(first, "Previous page")
	second := w.see(link(t, first, "Next page"))
	w.contains(second, ">cust-0000<", "Previous page")
	again := w.see(link(t, second, "Previous page"))
	w.contains(again, ">cust-0059<", "Next page")
	w.lacks(again, ">cust-0000<", "Previous page")
}

func TestScheduleForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.contains(w.see("/schedules/new"), `<option value="command">`, `<option value="Asia/Kolkata">`, `data-preview="/schedules/preview"`)
	a := w.post("/schedules/new", "id", "five", "slug", "x", "target", "command", "cron", "*/5 * * * *", "zone", "Kolkata")
	w.contains(a.body, "unknown time zone")
	w.lacks(a.body, "action: add", ": invalid")
	to := w.done("/schedules/new", "id", "five", "slug", "x", "target", "nowhere", "cron", "*/5 * * * *")
	w.contains(w.see(to), "No live worker serves its target")
	to = w.done("/schedules/new", "id", "six", "slug", "x", "target", "command", "cron", "*/5 * * * *")
	w.lacks(w.see(to), "No live worker")
}

func TestQuarantineSaysWhyAndForWhom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quarantine("", "not-there", "expired", []byte("x"))
	list := w.see("/quarantine")
	w.contains(list, "What it is for never came into being.", `href="/instances/default/not-there"`)
	w.contains(w.see(link(t, list, "e/message-1")), `href="/instances/default/not-there"`)
}
