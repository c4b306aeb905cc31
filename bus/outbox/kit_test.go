package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

func TestMain(m *testing.M) { teststore.Main(m) }

// fixture is a store with an outbox.
type fixture struct {
	*rig.Rig
	sink  *rig.Recorder
	notes *notebook
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T, r *fixture)) {
	t.Helper()
	rig.Bubble(t, func(t *testing.T) { f(t, &fixture{Rig: rig.New(t), sink: &rig.Recorder{}, notes: &notebook{}}) })
}

// config returns what a relay to the sink is made of.
func (r *fixture) config() outbox.Config {
	return outbox.Config{Store: r.Store, Sinks: []outbox.Sink{{Name: "sink", Bus: r.sink}}, Notes: r.notes, Logger: rig.Quiet}
}

// run has a relay work until the test ends, or stop is called, which returns when Run
// has.
func (r *fixture) run(configure ...func(*outbox.Config)) (stop func()) {
	r.T.Helper()
	cfg := r.config()
	for _, f := range configure {
		f(&cfg)
	}
	relay, err := outbox.New(cfg)
	check.OK(r.T, err)
	return rig.Run(r.T, relay).Stop
}

func retry(attempts int, first, most time.Duration) func(*outbox.Config) {
	return func(c *outbox.Config) { c.Sinks[0].Retry = outbox.Retry{Attempts: attempts, First: first, Cap: most} }
}

func envelope(n int) bus.Envelope {
	return bus.Envelope{
		ID: fmt.Sprintf("019ca7c5-2000-7000-8000-%012d", n), Type: "Happened", TenantID: "acme",
		CorrelationID: "request", TimestampMs: 1_772_366_400_000, Payload: []byte(fmt.Sprint(n)),
	}
}

// put puts envelopes with these numbers into the outbox.
func (r *fixture) put(numbers ...int) {
	r.T.Helper()
	tx := &store.Tx{}
	for _, n := range numbers {
		e := envelope(n)
		tx.Put = append(tx.Put, outbox.Put("sink", fmt.Sprint("name", n), &e, []byte{byte(n)}))
	}
	check.OK(r.T, r.Store.Commit(r.T.Context(), tx))
}

// waiting returns the message of an envelope, and whether it is in the outbox.
func (r *fixture) waiting(n int) (store.Message, bool) {
	r.T.Helper()
	e := envelope(n)
	m := outbox.Put("sink", fmt.Sprint("name", n), &e, nil)
	list, err := r.Store.Pending(r.T.Context(), m.Key, 1)
	check.OK(r.T, err)
	if len(list) == 0 {
		return store.Message{}, false
	}
	return list[0], true
}

// notebook keeps the outcomes that were settled, or about to be.
type notebook struct {
	mu    sync.Mutex
	list  []outbox.Outcome
	again int
	err   error
	put   func(*outbox.Outcome) []store.PutRecord
}

func (n *notebook) Note(_ context.Context, outcomes []*outbox.Outcome, again bool) (puts []store.PutRecord, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if again {
		n.again++
	}
	for _, o := range outcomes {
		n.list = append(n.list, *o)
		if n.put != nil {
			puts = append(puts, n.put(o)...)
		}
	}
	err, n.err = n.err, nil
	return puts, err
}

// last returns the outcome that was noted last.
func (n *notebook) last(t *testing.T) outbox.Outcome {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) == 0 {
		t.Fatal("nothing was noted")
	}
	return n.list[len(n.list)-1]
}
