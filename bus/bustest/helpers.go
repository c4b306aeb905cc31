package bustest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
)

// patience is how long the suite waits for what should come soon. It is long, because
// the machine may be busy, and nobody waits for it unless a test fails.
const patience = 30 * time.Second

// envelope returns the n-th of many that are all different.
func envelope(n int) bus.Envelope {
	return bus.Envelope{
		ID:            fmt.Sprintf("01938a5e-7c00-7000-8000-%012x", n),
		Type:          "DueTimeReached",
		TenantID:      fmt.Sprintf("tenant-%d", n%3),
		CorrelationID: fmt.Sprintf("request-%d", n),
		TimestampMs:   1_731_660_000_000 + int64(n),
		Payload:       json.RawMessage(fmt.Sprintf(`{"serviceCallId":"call-%d","n":%d}`, n, n)),
	}
}

// envelopes returns those from number first on.
func envelopes(first, count int) []bus.Envelope {
	list := make([]bus.Envelope, count)
	for i := range list {
		list[i] = envelope(first + i)
	}
	return list
}

// clone returns envelopes that share nothing with the given ones.
func clone(list []bus.Envelope) []bus.Envelope {
	list = slices.Clone(list)
	for i := range list {
		list[i].Payload = slices.Clone(list[i].Payload)
	}
	return list
}

func publish(t *testing.T, sink Sink, list ...bus.Envelope) {
	t.Helper()
	if err := sink.Bus.Publish(t.Context(), list); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

// wantReceived checks that these envelopes have arrived, in this order, and no others.
func wantReceived(t *testing.T, sink Sink, want []bus.Envelope) {
	t.Helper()
	got := sink.Received()
	for i := range min(len(got), len(want)) {
		wantSame(t, got[i], want[i])
	}
	if len(got) != len(want) {
		t.Fatalf("%d envelopes arrived, want %d", len(got), len(want))
	}
}

func wantSame(t *testing.T, got, want bus.Envelope) {
	t.Helper()
	if got.ID != want.ID || got.Type != want.Type || got.TenantID != want.TenantID ||
		got.CorrelationID != want.CorrelationID || got.TimestampMs != want.TimestampMs ||
		string(got.Payload) != string(want.Payload) {
		t.Fatalf("this arrived:\n%s\nwant:\n%s", show(got), show(want))
	}
}

// show is what a person wants to see of an envelope, whose payload may be long.
func show(e bus.Envelope) string {
	payload := string(e.Payload)
	if len(payload) > 200 {
		payload = fmt.Sprintf("%s… (%d bytes)", payload[:200], len(payload))
	}
	return fmt.Sprintf("id %q, type %q, tenant %q, correlation %q, time %d, payload %s",
		e.ID, e.Type, e.TenantID, e.CorrelationID, e.TimestampMs, payload)
}

// wantEach checks that each of these has arrived: once if the sink deduplicates, and
// with a known ID and the same content as often as it has.
func wantEach(t *testing.T, sink Sink, want []bus.Envelope) {
	t.Helper()
	byID := make(map[string]bus.Envelope, len(want))
	for _, e := range want {
		byID[e.ID] = e
	}
	times := map[string]int{}
	for _, e := range sink.Received() {
		if _, ok := byID[e.ID]; !ok {
			t.Fatalf("this arrived, and was not published: %s", show(e))
		}
		wantSame(t, e, byID[e.ID])
		times[e.ID]++
	}
	for id := range byID {
		if n := times[id]; n == 0 || n > 1 && sink.Deduplicates {
			t.Errorf("envelope %s arrived %d times", id, n)
		}
	}
}

// soon calls f, and fails the test if it does not return soon.
func soon(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	late := make(chan struct{})
	stop := base.System{}.AfterFunc(patience, func() { close(late) })
	defer stop()
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-late:
		t.Fatalf("%s did not return within %v", what, patience)
		return nil
	}
}
