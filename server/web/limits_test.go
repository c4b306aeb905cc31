package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// bank is a program whose activity waits until it is released, under limits.
type bank struct {
	*world
	engine   *abide.Engine
	transfer *abide.Orchestration[string, string]
	nightly  *abide.Orchestration[abide.None, abide.None]
	release  func()
}

func newBank(w *world) *bank {
	w.t.Helper()
	gateway := abide.NewLimit("gateway", abide.Concurrency(1), abide.Rate(6000, time.Minute))
	perCustomer := abide.NewLimit("customer", abide.Concurrency(2), abide.PerKey())
	runs := abide.NewLimit("nightly-runs", abide.Concurrency(1))
	ctx, release := context.WithCancel(context.Background())
	send := abide.NewActivity("send", func(own context.Context, in string) (string, error) {
		select {
		case <-ctx.Done():
		case <-own.Done():
		}
		return "sent for " + in, own.Err()
	}, abide.Under(gateway))
	b := &bank{world: w, release: release}
	b.transfer = abide.NewOrchestration("transfer", func(ctx abide.Context, customer string) (string, error) {
		return send.Call(ctx, customer, abide.UnderKey(perCustomer, customer))
	})
	b.nightly = abide.NewOrchestration("nightly", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		_, err := approved.Wait(ctx)
		return abide.None{}, err
	})
	var err error
	b.engine, err = abide.New(w.store, abide.Config{Register: []abide.Definition{send, b.transfer, b.nightly}, Unlisted: true, Logger: slog.New(slog.DiscardHandler)})
	check.OK(w.t, err)
	w.t.Cleanup(func() {
		release()
		_ = b.engine.Close()
	})
	for i, customer := range []string{"acme", "acme", "acme", "globex", "initech"} {
		_, err := b.transfer.Start(w.t.Context(), b.engine, customer, abide.ID(fmt.Sprint("transfer-", i+1)))
		check.OK(w.t, err)
		switch i {
		case 0: // it has the gateway
			b.limit("gateway", func(l abide.LimitInfo) bool { return l.InUse == 1 })
		case 1: // it waits for the gateway
			b.limit("gateway", func(l abide.LimitInfo) bool { return l.Waiting == 1 })
		case 2: // it waits for its customer
			b.limit("customer", func(l abide.LimitInfo) bool { return l.InUse == 2 && l.Waiting == 1 })
		default:
			b.limit("gateway", func(l abide.LimitInfo) bool { return l.Waiting == i-1 })
		}
	}
	for i := range 3 {
		_, err := b.nightly.Start(w.t.Context(), b.engine, abide.None{}, abide.ID(fmt.Sprint("nightly-", i+1)), abide.Under(runs), abide.Priority(-i))
		check.OK(w.t, err)
		b.limit("nightly-runs", func(l abide.LimitInfo) bool { return l.InUse == 1 && l.Waiting == i })
	}
	return b
}

// limit waits until a limit is as it should be.
func (b *bank) limit(name string, is func(abide.LimitInfo) bool) {
	b.t.Helper()
	check.Eventually(b.t, "the limit "+name+" is as it should be", func() bool {
		l, err := b.engine.Limit(b.t.Context(), "", name)
		return err == nil && is(l)
	})
}

// TestLimitsOnThePage: the list, the page of one, and what waits for limits.
func TestLimitsOnThePage(t *testing.T) {
	t.Parallel()
	b := newBank(newWorld(t))
	page := b.see("/limits")
	b.contains(page, `href="/limits/default/gateway"`, "1 at a time; 6,000 a minute, 10 at once", "1 of 1", ">acme 1</span>", "for each key", ">nightly-runs</a>")
	b.lacks(page, "set by an operator", "Empty:")
	b.contains(b.see("/limits?tenant=acme"), "No limit yet")
	page = b.see("/limits/default/gateway")
	b.contains(page, "1 of 1 in use", `<dt>Waiting</dt><dd>3</dd>`, "/limits/default/gateway/pause", "abide limits show gateway")
	b.lacks(page, "Keys in use", "Use the rule of the code")
	b.contains(b.see("/limits/default/customer"), "2 at a time, for each key", "<strong>acme</strong>", "<strong>initech</strong>", `<td data-label="In use">2</td><td data-label="Waiting">1</td>`)
	b.contains(b.see("/instances/default/transfer-2"), "<strong>send</strong>, which waits for", `href="/limits/default/gateway">gateway</a>, next, since`)
	b.contains(b.see("/instances/default/transfer-3"), "customer</a>, key <strong>acme</strong>, next, since")
	b.contains(b.see("/instances/default/transfer-5"), "gateway</a>, 2 before it, since", "pending</span> waits for limit gateway")
	page = b.see("/instances/default/nightly-3")
	b.contains(page, "nightly-runs</a>, 1 before it, since", `<a class="tag" href="/limits/default/nightly-runs">nightly-runs</a>`, "<dt>Priority</dt><dd>-2</dd>")
	b.lacks(page, "nobody who serves")
	b.lacks(b.see("/instances/default/nightly-1"), "before it", "next, since")
	check.Equal(t, "status of a limit that is not there", b.get("/limits/default/none").status, http.StatusNotFound)
}

// TestLimitsAreChangedOnThePage, by those who may.
func TestLimitsAreChangedOnThePage(t *testing.T) {
	t.Parallel()
	b := newBank(newWorld(t))
	b.lacks(b.see("/"), "held by paused limits")
	b.contains(b.see("/limits/default/gateway/pause"), "Pause gateway?", "keeps its place")
	check.Equal(t, "where it leads", b.done("/limits/default/gateway/pause"), "/limits/default/gateway?done=limit-paused")
	b.contains(b.see("/limits/default/gateway"), "paused</span>", "3 pieces of work wait", "/limits/default/gateway/resume")
	b.contains(b.see("/"), "3 held by paused limits", `href="/limits/default/gateway"`, "gateway of default")
	b.done("/limits/default/gateway/resume")
	b.lacks(b.see("/"), "held by paused limits")

	b.contains(b.see("/limits/default/gateway/set"), `value="1"`, `value="6000"`, `value="1m"`)
	for _, bad := range [][]string{{}, {"concurrency", "many"}, {"rate", "5"}, {"rate", "5", "per", "soon"}, {"concurrency", "20000"}} {
		if a := b.post("/limits/default/gateway/set", bad...); a.status != http.StatusBadRequest {
			t.Errorf("the rule %q: status %d, want %d", bad, a.status, http.StatusBadRequest)
		}
	}
	b.done("/limits/default/gateway/set", "concurrency", "3", "rate", "1,000", "per", "1s", "burst", "7")
	b.limit("gateway", func(l abide.LimitInfo) bool { return l.InUse == 3 && l.Waiting == 1 })
	b.contains(b.see("/limits"), "3 at a time; 1,000 a second, 7 at once", "set by an operator")
	b.contains(b.see("/limits/default/gateway"), "Use the rule of the code", "3 of 3 in use")
	b.contains(b.see("/limits/default/gateway/unset"), "1 at a time; 6,000 a minute, 10 at once")
	b.done("/limits/default/gateway/unset")
	b.lacks(b.see("/limits"), "set by an operator")

	noted := strings.Join(slices.Compact(slices.Clone(b.noted)), "; ")
	check.Equal(t, "noted", noted, "pause-limit default/gateway; resume-limit default/gateway; change-limit default/gateway; unset-limit default/gateway")
}

// TestALimitIsMadeOnThePage, and deleted again.
func TestALimitIsMadeOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.contains(w.see("/limits"), "No limit yet")
	for _, bad := range [][]string{{"concurrency", "1"}, {"name", "a/b", "concurrency", "1"}, {"name", "none"}} {
		if a := w.post("/limits/new", bad...); a.status != http.StatusBadRequest {
			t.Errorf("the limit %q: status %d, want %d", bad, a.status, http.StatusBadRequest)
		}
	}
	check.Equal(t, "where it leads", w.done("/limits/new", "name", "mail", "tenant", "acme", "rate", "30", "per", "90s", "perkey", "yes"), "/limits/acme/mail?done=limit-set")
	w.contains(w.see("/limits?tenant=acme"), "30 in 1 min 30 s, 1 at once", "none in use")
	w.contains(w.post("/limits/new", "name", "mail", "tenant", "acme", "concurrency", "1").body, "There is a limit of that name already")
	w.who = acme
	w.contains(w.see("/limits/acme/mail"), "Delete", "/limits/acme/mail/set")
	check.Equal(t, "status of another tenant's", w.post("/limits/new", "name", "mail", "concurrency", "1", "tenant", "default").status, http.StatusForbidden)
	check.Equal(t, "status of another tenant's page", w.get("/limits/default/mail").status, http.StatusForbidden)
	w.who = reader
	w.lacks(w.see("/limits/acme/mail"), "Delete", "Change the rule", "Pause")
	w.lacks(w.see("/limits"), "Make a limit")
	check.Equal(t, "status for who only reads", w.post("/limits/acme/mail/unset").status, http.StatusForbidden)
	w.who = acme
	w.contains(w.see("/limits/acme/mail/unset"), "No code has declared it")
	check.Equal(t, "where it leads", w.done("/limits/acme/mail/unset"), "/limits?done=deleted")
	check.Equal(t, "status after that", w.get("/limits/acme/mail").status, http.StatusNotFound)
}
