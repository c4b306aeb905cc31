package action_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// odd is a body that nobody can interpret.
const odd = "\x00\xff{\"a\":\r\n 1,,}\u2028 end\n"

// TestWebhookRunsAtTheNextTick with its body and headers as they were received; then the
// body is deleted.
func TestWebhookRunsAtTheNextTick(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		rig.Pass(time.Second)
		header := map[string]string{"Content-Type": "x/y", "X-Event": "push"}
		a, existed, err := r.Receive(t.Context(), action.Received{Tenant: "acme", Slug: "app", Target: "do", Body: []byte(odd), Header: header})
		if err != nil || existed {
			t.Fatalf("existed %v, %v", existed, err)
		}
		header["X-Event"] = "changed" // which is the caller's business
		want := action.Action{
			ID: a.ID, Tenant: "acme", Slug: "app", Target: "do", Status: action.Pending, CreatedAt: r.At(time.Second), UpdatedAt: r.At(time.Second), Version: 1,
			Trigger: action.Trigger{Kind: action.Webhook, At: r.At(time.Second), Size: len(odd), Header: map[string]string{"Content-Type": "x/y", "X-Event": "push"}},
		}
		wantAction(t, "received", a, want)
		wantAction(t, "received, read again", r.get(a.ID), want)
		r.wantBody(a.ID, odd)
		r.until(rate - time.Millisecond)
		r.wantIDs()
		r.until(rate)
		r.wantIDs(a.ID)
		check.Equal(t, "body", string(r.last().Body), odd)
		r.wantStatus(a.ID, action.Completed, "")
		r.wantNoBody(a.ID)
		check.Equal(t, "header", r.get(a.ID).Trigger.Header["X-Event"], "push")
	})
}

func TestWebhookWithoutABody(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(fails("no"))
		a := r.receive("", "")
		r.wantBody(a.ID, "")
		r.tick()
		r.wantBody(a.ID, "")
		r.retry(a.ID)
		r.wantBody(a.ID, "")
		r.will(nil)
		r.tick()
		r.wantNoBody(a.ID)
	})
}

// TestAddCannotTakeTheIDOfADelivery: an action with that ID would make the delivery count as a
// duplicate.
func TestAddCannotTakeTheIDOfADelivery(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		id := newFixture(t).receive("one", "d1").ID // the ID depends on slug and delivery only
		r := newFixture(t)
		_, _, err := r.Add(t.Context(), fill(action.Request{ID: id}))
		check.ErrorOf(t, "action", err, action.ErrInvalid, id, `begins with "delivery-"`)
		check.Equal(t, "ID", r.receive("one", "d1").ID, id)
		r.wantBody(id, "one")
		// Only the whole prefix is reserved.
		for _, free := range []string{"delivery", "Delivery-1", "a-delivery-1"} {
			r.add(action.Request{ID: free})
		}
	})
}

// TestReceiveIsIdempotentByDelivery within a slug, and not if the sender gives no name.
func TestReceiveIsIdempotentByDelivery(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		first := r.receive("one", "d1")
		for range 2 {
			got, existed, err := r.Receive(t.Context(), action.Received{Tenant: "acme", Slug: "app", Target: "do", Body: []byte("two"), Delivery: "d1"})
			if err != nil || !existed || got.ID != first.ID {
				t.Errorf("action %s, existed %v, %v", got.ID, existed, err)
			}
			r.tick() // also when it has ended
		}
		r.wantIDs(first.ID)
		check.Equal(t, "body", string(r.last().Body), "one")

		ids := map[string]bool{first.ID: true}
		for _, other := range []action.Received{
			{Tenant: "acme", Slug: "app", Target: "do", Delivery: "d2"},
			{Tenant: "acme", Slug: "web", Target: "do", Delivery: "d1"},
			{Tenant: "acme", Slug: "app", Target: "do"},
			{Tenant: "acme", Slug: "app", Target: "do"},
		} {
			got, existed, err := r.Receive(t.Context(), other)
			if err != nil || existed || ids[got.ID] {
				t.Errorf("action %s of %+v, existed %v, %v", got.ID, other, existed, err)
			}
			ids[got.ID] = true
		}
		got, existed, err := r.Receive(t.Context(), action.Received{Tenant: "other", Slug: "app", Target: "do", Delivery: "d1"})
		if err != nil || existed || got.Tenant != "other" {
			t.Errorf("of another tenant: %v, existed %v, %v", got.Tenant, existed, err)
		}
	})
}

// TestBodyIsKeptAfterFailure, and used when it is run again.
func TestBodyIsKeptAfterFailure(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.will(fails("no"))
		a := r.receive(odd, "")
		r.tick()
		r.wantStatus(a.ID, action.Failed, "no")
		r.wantBody(a.ID, odd)
		check.Equal(t, "messages", r.Pending(), 0)
		rig.Pass(time.Hour)
		retried := r.retry(a.ID)
		check.Equal(t, "when it was received", retried.Trigger.At, r.At(0))
		r.wantBody(a.ID, odd)
		check.Equal(t, "bodies beside their action", len(r.Records("action.body")), 0)
		r.will(nil)
		r.tick()
		check.Equal(t, "body", string(r.last().Body), odd)
		r.wantStatus(a.ID, action.Completed, "")
		r.wantNoBody(a.ID)
	})
}

// TestBodySurvivesBackoff: it goes from one message to the next.
func TestBodySurvivesBackoff(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts = 3 }))
		r.will(fails("no"))
		a := r.receive(odd, "")
		r.run()
		for range 3 {
			r.wantBody(a.ID, odd)
			rig.Pass(rate)
		}
		r.wantStatus(a.ID, action.Failed, "no")
		for _, run := range r.all() {
			check.Equal(t, "body", string(run.Body), odd)
		}
		r.wantBody(a.ID, odd)
	})
}

// TestBodyIsKeptAfterCancel, be it pending, running or waiting to be run again.
func TestBodyIsKeptAfterCancel(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, target(func(d *action.Definition) { d.Attempts = 2 }))
		pending := r.receive(odd, "pending")
		r.cancel(pending.ID, "")
		r.wantBody(pending.ID, odd)

		r.will(takes(time.Hour))
		running := r.receive(odd, "running")
		r.tick()
		r.wantBody(running.ID, odd)
		r.cancel(running.ID, "")
		r.wantBody(running.ID, odd)

		r.will(fails("no"))
		again := r.receive(odd, "again")
		r.tick()
		r.wantStatus(again.ID, action.Pending, "no")
		r.cancel(again.ID, "")
		r.wantBody(again.ID, odd)

		rig.Pass(time.Minute)
		r.will(nil)
		for _, id := range []string{pending.ID, running.ID, again.ID} {
			r.retry(id)
			r.tick()
			r.wantStatus(id, action.Completed, "")
			check.Equal(t, "body", string(r.last().Body), odd)
		}
		r.wantNoBody(pending.ID)
	})
}

// TestRetryNeedsTheBody: without it, it is not what was received.
func TestRetryNeedsTheBody(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *action.Config) { c.Retention = time.Hour })
		a := r.receive(odd, "")
		r.cancel(a.ID, "")
		r.run()
		rig.Pass(2 * time.Hour)
		if _, err := r.Retry(t.Context(), "acme", a.ID); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
}

// TestOnlyWebhooksHaveABody.
func TestOnlyWebhooksHaveABody(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.add(action.Request{ID: "a", Payload: []byte("1")})
		r.wantNoBody("a")
		r.wantNoBody("nobody")
		r.will(func(_ context.Context, run action.Run) (action.Outcome, error) {
			if len(run.Body) > 0 {
				t.Errorf("it has the body %q", run.Body)
			}
			return action.Outcome{}, errors.New("no")
		})
		r.tick()
		r.wantNoBody("a")
	})
}
