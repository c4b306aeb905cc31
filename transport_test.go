package abide_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// fakeTransport is a transport as a user's test has it: it records what is started and answers
// with a result.
type fakeTransport struct {
	abide.Transport
	started []abide.StartRequest
	raised  []abide.RaiseRequest
}

func (f *fakeTransport) Start(_ context.Context, requests []abide.StartRequest) ([]abide.Started, error) {
	f.started = append(f.started, requests...)
	return []abide.Started{{Ref: requests[0].Ref, Revision: 1}}, nil
}

func (f *fakeTransport) Raise(_ context.Context, requests []abide.RaiseRequest) ([]abide.Raised, error) {
	f.raised = append(f.raised, requests...)
	return make([]abide.Raised, len(requests)), nil
}

func (f *fakeTransport) WaitChange(_ context.Context, ref abide.Ref, _ int64) (abide.Info, error) {
	return abide.Info{Ref: ref, Status: abide.Completed, Result: []byte(`42`)}, nil
}

func TestAClientCanBeFaked(t *testing.T) {
	t.Parallel()
	fake := &fakeTransport{}
	client := abide.ClientOver(fake, nil)
	order := abide.OrchestrationNamed[string, int]("order", abide.Version("2"))
	instance, err := order.Start(t.Context(), client, "shoes", abide.ID("o-1"), abide.Tenant("acme"), abide.Tag("region", "eu"), abide.RejectExisting())
	if err != nil {
		t.Fatal(err)
	}
	if result, err := instance.Result(t.Context()); err != nil || result != 42 {
		t.Errorf("the result is %d, %v", result, err)
	}
	r := fake.started[0]
	if r.Ref != (abide.Ref{Tenant: "acme", ID: "o-1"}) || r.Orchestration != "order" || r.Version != "2" ||
		string(r.Input) != `"shoes"` || r.Tags["region"] != "eu" || r.IfExists != abide.ExistsReject {
		t.Errorf("the request is %+v", r)
	}
	paid := abide.NewEvent[int]("paid")
	if err := paid.Raise(t.Context(), client, "o-1", 7, abide.Tenant("acme"), abide.ID("p"), abide.KeepFor(time.Hour), abide.IfAwaited()); err != nil {
		t.Fatal(err)
	}
	e := fake.raised[0]
	if e.Ref != (abide.Ref{Tenant: "acme", ID: "o-1"}) || e.Event != "paid" || string(e.Data) != `7` || e.ID != "p" || e.KeepFor != time.Hour || !e.IfAwaited {
		t.Errorf("the request is %+v", e)
	}
}

// TestATransportSeesTheNameOfTheDefaultTenant, also where a request is made by hand, which is
// not changed.
func TestATransportSeesTheNameOfTheDefaultTenant(t *testing.T) {
	t.Parallel()
	fake := &fakeTransport{}
	client := abide.ClientOver(fake, nil)
	starts := []abide.StartRequest{{Ref: abide.Ref{Tenant: "acme", ID: "a"}}, {Ref: abide.Ref{ID: "b"}}}
	if _, err := client.Start(t.Context(), starts...); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Raise(t.Context(), abide.RaiseRequest{Ref: abide.Ref{ID: "c"}, Event: "e"}); err != nil {
		t.Fatal(err)
	}
	want := abide.Ref{Tenant: abide.DefaultTenant, ID: "b"}
	if fake.started[0].Ref.Tenant != "acme" || fake.started[1].Ref != want || fake.raised[0].Ref.Tenant != abide.DefaultTenant || starts[1].Ref.Tenant != "" {
		t.Errorf("%+v, %+v, given %+v", fake.started, fake.raised, starts)
	}
	if info, err := client.WaitChange(t.Context(), abide.Ref{ID: "b"}, 0); err != nil || info.Ref != want {
		t.Errorf("%v, %v", info.Ref, err)
	}
}

func TestATransportThatIsNoOperator(t *testing.T) {
	t.Parallel()
	client := abide.ClientOver(&fakeTransport{}, nil)
	ref := abide.Ref{ID: "i"}
	calls := map[string]func() error{
		"waits":          func() error { _, err := client.Waits(t.Context(), ref); return err },
		"history length": func() error { _, err := client.HistoryLength(t.Context(), ref, 0); return err },
		"quarantine":     func() error { _, err := client.Quarantine(t.Context(), abide.QuarantineFilter{}); return err },
		"redrive":        func() error { return client.Redrive(t.Context(), "", "m") },
		"discard":        func() error { return client.Discard(t.Context(), "", "m") },
		"workers":        func() error { _, err := client.Workers(t.Context()); return err },
		"unserved":       func() error { _, err := client.Unserved(t.Context()); return err },
		"changes": func() (err error) {
			for _, err = range client.Changes(t.Context(), "") {
			}
			return err
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnknownVerbIsRefused(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	err := abide.NewClient(s, nil).Transport().Control(t.Context(), abide.Ref{ID: "i"}, abide.Command{Verb: "explode"})
	if !errors.Is(err, abide.ErrInvalid) || !strings.Contains(err.Error(), `"explode"`) {
		t.Errorf("%v", err)
	}
}

// TestAllFollowsPages: every instance comes once, whatever the size of a page, and the sequence
// can be left early.
func TestAllFollowsPages(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	client := abide.NewClient(s, nil)
	flow := abide.OrchestrationNamed[int, int]("flow")
	for n := range 7 {
		if _, err := flow.Start(t.Context(), client, n, abide.Unchecked()); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{0, 1, 3, 7} {
		seen := map[string]bool{}
		for info, err := range client.All(t.Context(), abide.Filter{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			seen[info.Ref.ID] = true
		}
		if len(seen) != 7 {
			t.Errorf("with pages of %d there are %d instances, want 7", limit, len(seen))
		}
	}
	for range client.All(t.Context(), abide.Filter{Limit: 1}) {
		break
	}
	for _, err := range client.All(t.Context(), abide.Filter{Limit: -1}) {
		if !errors.Is(err, abide.ErrInvalid) {
			t.Errorf("a page of -1: %v", err)
		}
	}
}
