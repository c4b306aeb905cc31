package bus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/bustest"
)

func TestLocalPassesTheSuite(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(*testing.T) bustest.Sink {
		var (
			local   bus.Local
			mu      sync.Mutex
			arrived []bus.Envelope
			stopped bool
			hung    chan struct{}
		)
		local.Subscribe(bus.Filter{}, func(ctx context.Context, e bus.Envelope) error {
			mu.Lock()
			defer mu.Unlock()
			if stopped {
				return errFull
			}
			if hung != nil {
				select {
				case <-hung:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			e.Payload = slices.Clone(e.Payload)
			arrived = append(arrived, e)
			return nil
		})
		set := func(down bool) { mu.Lock(); stopped = down; mu.Unlock() }
		return bustest.Sink{
			Bus:      &local,
			Received: func() []bus.Envelope { mu.Lock(); defer mu.Unlock(); return slices.Clone(arrived) },
			Stop:     func() { set(true) },
			Start:    func() { set(false) },
			Hang: func() func() {
				release := make(chan struct{})
				hung = release
				return func() { close(release) }
			},
		}
	})
}

// seen subscribes a handler that keeps the IDs of what it is told.
func seen(l *bus.Local, f bus.Filter) (ids func() []string, cancel func()) {
	var mu sync.Mutex
	var list []string
	cancel = l.Subscribe(f, func(_ context.Context, e bus.Envelope) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, e.ID)
		return nil
	})
	return func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(list) }, cancel
}

func envelopeOf(id, kind, tenant string) bus.Envelope {
	e := valid()
	e.ID, e.Type, e.TenantID = id, kind, tenant
	return e
}

func TestLocalTellsThoseWhoseFilterMatches(t *testing.T) {
	t.Parallel()
	var local bus.Local
	list := []bus.Envelope{envelopeOf("1", "due", "a"), envelopeOf("2", "due", "b"), envelopeOf("3", "done", "a")}
	if err := local.Publish(t.Context(), list); err != nil {
		t.Errorf("with nobody to tell: %v", err)
	}
	for _, tt := range []struct {
		filter bus.Filter
		want   []string
	}{
		{bus.Filter{}, []string{"1", "2", "3"}},
		{bus.Filter{Type: "due"}, []string{"1", "2"}},
		{bus.Filter{TenantID: "a"}, []string{"1", "3"}},
		{bus.Filter{Type: "due", TenantID: "a"}, []string{"1"}},
		{bus.Filter{Type: "done", TenantID: "b"}, nil},
	} {
		ids, cancel := seen(&local, tt.filter)
		if err := local.Publish(t.Context(), list); err != nil {
			t.Errorf("%+v: %v", tt.filter, err)
		}
		if got := ids(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v was told of %v, want %v", tt.filter, got, tt.want)
		}
		cancel()
	}
}

func TestLocalCancelEndsOneSubscription(t *testing.T) {
	t.Parallel()
	var local bus.Local
	first, cancelFirst := seen(&local, bus.Filter{})
	second, _ := seen(&local, bus.Filter{})
	cancelFirst()
	cancelFirst()
	if err := local.Publish(t.Context(), []bus.Envelope{envelopeOf("1", "due", "a")}); err != nil {
		t.Fatal(err)
	}
	if a, b := first(), second(); len(a) != 0 || len(b) != 1 {
		t.Errorf("the cancelled one was told of %v, the other one of %v", a, b)
	}
}

// TestLocalSubscriptionsChangeDuringPublish: a handler that subscribes, or cancels
// itself, neither waits for the Publish that it is part of nor disturbs it.
func TestLocalSubscriptionsChangeDuringPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var local bus.Local
		var later func() []string
		var cancel func()
		cancel = local.Subscribe(bus.Filter{}, func(context.Context, bus.Envelope) error {
			cancel()
			later, _ = seen(&local, bus.Filter{})
			return nil
		})
		other, _ := seen(&local, bus.Filter{})
		if err := local.Publish(t.Context(), []bus.Envelope{envelopeOf("1", "due", "a")}); err != nil {
			t.Fatal(err)
		}
		if err := local.Publish(t.Context(), []bus.Envelope{envelopeOf("2", "due", "a")}); err != nil {
			t.Fatal(err)
		}
		if got := later(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("who came during the first Publish was told of %v", got)
		}
		if got := other(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("who was there all the time was told of %v", got)
		}
	})
}

// TestLocalOneFailureIsOneOutcome: what one subscriber cannot take fails for that
// envelope alone, and the other subscribers are told of it.
func TestLocalOneFailureIsOneOutcome(t *testing.T) {
	t.Parallel()
	var local bus.Local
	before, _ := seen(&local, bus.Filter{})
	local.Subscribe(bus.Filter{TenantID: "b"}, func(context.Context, bus.Envelope) error { return errFull })
	local.Subscribe(bus.Filter{TenantID: "c"}, func(context.Context, bus.Envelope) error { panic("no such tenant") })
	after, _ := seen(&local, bus.Filter{})
	list := []bus.Envelope{envelopeOf("1", "due", "a"), envelopeOf("2", "due", "b"), envelopeOf("3", "due", "c"), envelopeOf("4", "due", "a")}
	outcomes := bus.Outcomes(local.Publish(t.Context(), list), len(list))
	if outcomes[0] != nil || outcomes[3] != nil {
		t.Errorf("those that nobody failed: %v, %v", outcomes[0], outcomes[3])
	}
	if !errors.Is(outcomes[1], errFull) {
		t.Errorf("the one that failed: %v", outcomes[1])
	}
	if err := outcomes[2]; err == nil || !strings.Contains(err.Error(), "a subscriber panicked at envelope 3: no such tenant") {
		t.Errorf("the one that panicked: %v", err)
	}
	for _, ids := range []func() []string{before, after} {
		if got := ids(); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
			t.Errorf("another subscriber was told of %v", got)
		}
	}
}

func TestAPermanentFailureWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	soon := errors.New("not now")
	for name, handlers := range map[string][]error{
		"the permanent one first": {bus.ErrPermanent, soon},
		"the permanent one last":  {soon, bus.ErrPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := &bus.Local{}
			for _, err := range handlers {
				local.Subscribe(bus.Filter{}, func(context.Context, bus.Envelope) error { return err })
			}
			err := local.Publish(t.Context(), []bus.Envelope{{ID: "1"}})
			if errors.Is(err, bus.ErrPermanent) || !errors.Is(err, soon) {
				t.Errorf("%v: it would not be tried again, and one subscriber wants it", err)
			}
		})
	}
}
