package bustest

import (
	"slices"
	"sync"
	"testing"

	"github.com/abidehq/abide/bus"
)

// order: more than an adapter sends at a time, so that order must hold from one
// portion to the next.
func order(t *testing.T, sink Sink) {
	list := envelopes(0, 1000)
	publish(t, sink, list...)
	wantReceived(t, sink, list)
}

func nothing(t *testing.T, sink Sink) {
	publish(t, sink)
	publish(t, sink, []bus.Envelope{}...)
	wantReceived(t, sink, nil)
}

// again: this is what a publisher does that stopped after the sink had accepted, and
// before it could record so.
func again(t *testing.T, sink Sink) {
	list := envelopes(0, 20)
	publish(t, sink, list[:10]...)
	publish(t, sink, list...)
	publish(t, sink, list...)
	wantEach(t, sink, list)
	if sink.Deduplicates {
		wantReceived(t, sink, list)
	}
}

func twiceAtOnce(t *testing.T, sink Sink) {
	list := envelopes(0, 3)
	publish(t, sink, list[0], list[1], list[0], list[1], list[2])
	wantEach(t, sink, list)
}

func arguments(t *testing.T, sink Sink) {
	given := envelopes(0, 50)
	want := clone(given)
	publish(t, sink, given...)
	for i := range given {
		wantSame(t, given[i], want[i])
	}
	// The caller may do with them what it likes; the race detector sees who else reads
	// them.
	for i := range given {
		for j := range given[i].Payload {
			given[i].Payload[j] = '!'
		}
		given[i] = bus.Envelope{}
	}
	publish(t, sink, envelopes(50, 1)...)
	wantReceived(t, sink, append(want, envelope(50)))
}

func concurrent(t *testing.T, sink Sink) {
	const publishers, rounds, size = 8, 5, 20
	list := envelopes(0, publishers*rounds*size)
	var wg sync.WaitGroup
	for portion := range slices.Chunk(list, rounds*size) {
		wg.Go(func() {
			for part := range slices.Chunk(portion, size) {
				if err := sink.Bus.Publish(t.Context(), part); err != nil {
					t.Errorf("Publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	wantEach(t, sink, list)

	// Between those of other publishers, each one's are in their order.
	at := make(map[string]int, len(list))
	for i, e := range sink.Received() {
		if _, ok := at[e.ID]; !ok {
			at[e.ID] = i
		}
	}
	for portion := range slices.Chunk(list, rounds*size) {
		if !slices.IsSortedFunc(portion, func(a, b bus.Envelope) int { return at[a.ID] - at[b.ID] }) {
			t.Error("the envelopes of one publisher are not in their order")
		}
	}
}
