package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// rig is a store with an outbox, in a bubble of virtual time.
type rig struct {
	t     *testing.T
	store store.Store
	sink  *recorder
	notes *notebook
	begun time.Time
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		f(t, &rig{t: t, store: s, sink: &recorder{}, notes: &notebook{}, begun: time.Now()})
	})
}

// config returns what a relay to the sink is made of.
func (r *rig) config() outbox.Config {
	return outbox.Config{
		Store: r.store, Sinks: []outbox.Sink{{Name: "sink", Bus: r.sink}}, Notes: r.notes,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// run has a relay work until the test ends, or stop is called, which returns when Run
// has.
func (r *rig) run(configure ...func(*outbox.Config)) (stop func()) {
	r.t.Helper()
	cfg := r.config()
	for _, f := range configure {
		f(&cfg)
	}
	relay, err := outbox.New(cfg)
	check.OK(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func retry(attempts int, first, most time.Duration) func(*outbox.Config) {
	return func(c *outbox.Config) { c.Sinks[0].Retry = outbox.Retry{Attempts: attempts, First: first, Cap: most} }
}

// pass lets time pass, and what happens then come to its end.
func (*rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func envelope(n int) bus.Envelope {
	return bus.Envelope{
		ID: fmt.Sprintf("019ca7c5-2000-7000-8000-%012d", n), Type: "Happened", TenantID: "acme",
		CorrelationID: "request", TimestampMs: 1_772_366_400_000, Payload: []byte(fmt.Sprint(n)),
	}
}

// put puts envelopes with these numbers into the outbox.
func (r *rig) put(numbers ...int) {
	r.t.Helper()
	tx := &store.Tx{}
	for _, n := range numbers {
		e := envelope(n)
		tx.Put = append(tx.Put, outbox.Put("sink", fmt.Sprint("name", n), &e, []byte{byte(n)}))
	}
	check.OK(r.t, r.store.Commit(r.t.Context(), tx))
}

// waiting returns the message of an envelope, and whether it is in the outbox.
func (r *rig) waiting(n int) (store.Message, bool) {
	r.t.Helper()
	e := envelope(n)
	m := outbox.Put("sink", fmt.Sprint("name", n), &e, nil)
	list, err := r.store.Pending(r.t.Context(), m.Key, 1)
	check.OK(r.t, err)
	if len(list) == 0 {
		return store.Message{}, false
	}
	return list[0], true
}

// quarantine returns what is in quarantine.
func (r *rig) quarantine() []store.Record {
	r.t.Helper()
	page, err := r.store.List(r.t.Context(), store.Query{Kind: store.KindQuarantine})
	check.OK(r.t, err)
	return page.Records
}

// recorder is a sink that notes each call, and does with it what it is told.
type recorder struct {
	mu    sync.Mutex
	calls []call
	do    func(ctx context.Context, envelopes []bus.Envelope) error // nil means to accept
}

type call struct {
	at        time.Time
	envelopes []bus.Envelope
	err       error
}

func (r *recorder) Publish(ctx context.Context, envelopes []bus.Envelope) (err error) {
	began := time.Now()
	r.mu.Lock()
	do := r.do
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, call{began, append([]bus.Envelope(nil), envelopes...), err})
	}()
	if do != nil {
		return do(ctx, envelopes)
	}
	return nil
}

func (r *recorder) set(do func(context.Context, []bus.Envelope) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.do = do
}

// fail has each envelope fail.
func (r *recorder) fail(err error) {
	r.set(func(context.Context, []bus.Envelope) error { return err })
}

// published returns how many envelopes were accepted, and in how many calls any were
// given.
func (r *recorder) published() (accepted, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		for _, err := range bus.Outcomes(c.err, len(c.envelopes)) {
			if err == nil {
				accepted++
			}
		}
	}
	return accepted, len(r.calls)
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

// wantEqual checks one thing.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
