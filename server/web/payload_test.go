package web_test

import (
	"net/http"
	"testing"

	"github.com/abidehq/abide"
)

type claimIn struct {
	Cents int `json:"cents"`
}

type decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
}

var (
	decided = abide.NewEvent[decision]("decided")
	claim   = abide.NewOrchestration("claim", func(ctx abide.Context, _ claimIn) (string, error) {
		d, err := decided.Wait(ctx)
		return d.By, err
	})
)

// TestRaiseOffersWhatIsAwaited: the form has the names of the events that the instance waits for and a
// payload of the right type, refuses one that does not fit, and says what the event has found.
func TestRaiseOffersWhatIsAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done("/instances/new", "orchestration", "claim", "id", "claim-1", "input", `{"cents": 5}`)
	ref := abide.Ref{ID: "claim-1"}
	w.until(ref, func(i abide.Info) bool { return len(i.Awaited) == 1 })
	at := "/instances/default/claim-1"
	w.contains(w.see(at), `<span class="kind">event</span> <strong>decided</strong>, since`, at+"/raise?name=decided")
	w.contains(w.see(at+"/raise"), "It waits for decided.", `value="decided"`, "&#34;approved&#34;: false", "JSON of the type decision")
	a := w.post(at+"/raise", "name", "decided", "data", `{"approved": "yes"}`)
	if a.status != http.StatusUnprocessableEntity {
		t.Errorf("a payload that does not fit: status %d", a.status)
	}
	w.contains(a.body, "approved is &#34;yes&#34;, want true or false", "{&#34;approved&#34;: &#34;yes&#34;}")
	w.contains(w.see(w.done(at+"/raise", "name", "decied", "data", `1`)), "Kept: the instance does not wait for an event of that name yet.")
	w.contains(w.see(w.done(at+"/raise", "name", "decied", "awaited", "yes")), "Dropped: the instance does not wait for an event of that name.")
	w.contains(w.see(w.done(at+"/raise", "name", "decided", "data", `{"by": "an operator"}`)), "The instance waits for the event and receives it.")
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Completed })
}

// TestBadPayloadsAreCorrected: an instance that has stalled because of its input or of an event shows it,
// and goes on when it is corrected or the event is discarded.
func TestBadPayloadsAreCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.post("/instances/new", "orchestration", "claim", "id", "claim-1", "input", `{"cents": "five"}`)
	w.contains(a.body, "cents is &#34;five&#34;, want an integer")
	w.contains(w.post("/instances/new", "orchestration", "clam", "id", "claim-1").body, "not served by any worker")

	w.done("/instances/new", "orchestration", "claim", "id", "claim-1", "input", `{"cents": "five"}`, "unchecked", "yes")
	ref := abide.Ref{ID: "claim-1"}
	stalled := func() { w.until(ref, func(i abide.Info) bool { return i.BadPayload != nil }) }
	stalled()
	at := "/instances/default/claim-1"
	w.contains(w.see(at), "&#34;cents&#34;: &#34;five&#34;", "Correct payload")
	w.contains(w.post(at+"/resume").body, "stalled again")
	form := w.see(at + "/correct")
	w.contains(form, "Correct the input of claim", "&#34;five&#34;", "JSON such as {&#34;cents&#34;:0}")
	w.lacks(form, "Discard the event")
	w.contains(w.post(at+"/correct", "data", `{"cents": "six"}`).body, "want an integer")
	w.contains(w.see(w.done(at+"/correct", "data", `{"cents": 5}`)), "The payload was corrected")
	w.until(ref, func(i abide.Info) bool { return len(i.Awaited) == 1 })

	w.done(at+"/raise", "name", "decided", "data", `{"approved": "yes"}`, "unchecked", "yes")
	stalled()
	w.contains(w.see(at+"/correct"), "Correct event decided", "&#34;yes&#34;", "Discard the event")
	w.done(at+"/correct", "discard", "yes")
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Running })
	w.contains(w.see(at), "Payload of decided discarded")
	w.done(at+"/raise", "name", "decided", "data", `{"by": "an operator"}`)
	w.until(ref, func(i abide.Info) bool { return i.Status == abide.Completed })
}
