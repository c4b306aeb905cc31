package natsbus_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/bustest"
	"github.com/abidehq/abide/bus/natsbus"
	"github.com/abidehq/abide/internal/check"
)

func newBus(t *testing.T, cfg natsbus.Config) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.New(t.Context(), cfg)
	check.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

func TestBusPassesTheSuite(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Sink {
		s := newServer(t)
		p := newProxy(t, s.addr())
		return bustest.Sink{
			Bus:          newBus(t, natsbus.Config{URL: p.url()}),
			Received:     func() []bus.Envelope { return s.received("abide_events") },
			Deduplicates: true,
			TooLarge:     1 << 20, // with what is around it, more than a server takes
			Stop:         s.stop,
			Start:        s.start,
			Hang:         p.hang,
		}
	})
}

func TestBusPassesTheSuiteOnAConnectionOfTheCaller(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Sink {
		s := newServer(t)
		conn, err := nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)) // with a buffer
		check.OK(t, err)
		t.Cleanup(conn.Close)
		return bustest.Sink{
			Bus:          newBus(t, natsbus.Config{Conn: conn, Prefix: "my.prefix", Stream: "mine"}),
			Received:     func() []bus.Envelope { return s.received("mine") },
			Deduplicates: true,
			Stop:         s.stop,
			Start:        s.start,
		}
	})
}

func TestSubjectsSayTenantAndType(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := newBus(t, natsbus.Config{URL: s.url()})
	conn := s.connect()
	sub, err := conn.SubscribeSync("abide.events.a%2Eb.*")
	check.OK(t, err)
	check.OK(t, conn.Flush())
	e := envelope(1)
	e.TenantID, e.Type = "a.b", "a/b"
	other := envelope(2)
	check.OK(t, b.Publish(t.Context(), []bus.Envelope{other, e}))
	msg, err := sub.NextMsg(patience)
	check.OK(t, err)
	check.Equal(t, "the subject", msg.Subject, "abide.events.a%2Eb.a%2Fb")
}

func TestNewCreatesAStreamThatLasts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var wg sync.WaitGroup
	for range 4 { // all at a time, as processes do that start together
		wg.Go(func() { newBus(t, natsbus.Config{URL: s.url(), Prefix: "a.b", Window: time.Hour}) })
	}
	wg.Wait()
	stream, err := s.jetstream().Stream(t.Context(), "a_b_events")
	check.OK(t, err)
	cfg := stream.CachedInfo().Config
	if !slices.Equal(cfg.Subjects, []string{"a.b.events.>"}) || cfg.Storage != jetstream.FileStorage || cfg.Duplicates != time.Hour {
		t.Errorf("the stream is %+v", cfg)
	}
}

func TestNewTakesAStreamAsItIs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	js := s.jetstream()
	for _, tt := range []struct {
		name string
		cfg  jetstream.StreamConfig
		fits bool
	}{
		{"ours", jetstream.StreamConfig{Subjects: []string{"ours.events.>"}, Duplicates: time.Second}, true},
		{"more", jetstream.StreamConfig{Subjects: []string{"unrelated", "more.>"}, Storage: jetstream.MemoryStorage}, true},
		{"another", jetstream.StreamConfig{Subjects: []string{"another.commands.>"}}, false},
		{"less", jetstream.StreamConfig{Subjects: []string{"less.events.acme.>"}}, false},
		{"silent", jetstream.StreamConfig{Subjects: []string{"silent.events.>"}, NoAck: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Name = "stream_" + tt.name
			before, err := js.CreateStream(t.Context(), tt.cfg)
			check.OK(t, err)
			b, err := natsbus.New(t.Context(), natsbus.Config{URL: s.url(), Prefix: tt.name, Stream: tt.cfg.Name, Window: time.Minute})
			switch {
			case tt.fits && err != nil:
				t.Fatal(err)
			case tt.fits:
				b.Close()
			case !errors.Is(err, bus.ErrInvalid):
				t.Errorf("New: %v, want ErrInvalid", err)
			}
			after, err := js.Stream(t.Context(), tt.cfg.Name)
			check.OK(t, err)
			was, is := before.CachedInfo().Config, after.CachedInfo().Config
			if was.Duplicates != is.Duplicates || was.Storage != is.Storage || !slices.Equal(was.Subjects, is.Subjects) {
				t.Errorf("the stream was %+v and is %+v", was, is)
			}
		})
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, cfg := range []natsbus.Config{
		{},
		{URL: s.url(), Conn: s.connect()},
		{URL: s.url(), Prefix: "a..b"},
		{URL: s.url(), Prefix: "a.>"},
		{URL: s.url(), Prefix: "a b"},
	} {
		if _, err := natsbus.New(t.Context(), cfg); !errors.Is(err, bus.ErrInvalid) {
			t.Errorf("New(%+v): %v, want ErrInvalid", cfg, err)
		}
	}
	s.stop()
	if _, err := natsbus.New(t.Context(), natsbus.Config{URL: s.url()}); err == nil {
		t.Error("New succeeds without a server")
	}
	s.start()
}

// TestTheWindowOutlivesTheServer: a publisher that stopped between publishing and its
// record publishes all of it again, also if the server was restarted in between.
func TestTheWindowOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	list := envelopes(0, 100)
	first := newBus(t, natsbus.Config{URL: s.url()})
	check.OK(t, first.Publish(t.Context(), list))
	first.Close()
	s.stop()
	s.start()
	second := newBus(t, natsbus.Config{URL: s.url()})
	check.OK(t, second.Publish(t.Context(), append(list, envelope(100))))
	if got := s.received("abide_events"); len(got) != 101 {
		t.Errorf("the stream has %d envelopes, want 101", len(got))
	}
}

// TestTheWindowEnds: what comes after the window comes again, so the window is the
// stream's and not for ever.
func TestTheWindowEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := newBus(t, natsbus.Config{URL: s.url(), Window: 100 * time.Millisecond})
	check.Eventually(t, "an envelope to come again after the window", func() bool {
		check.OK(t, b.Publish(t.Context(), envelopes(0, 1)))
		return len(s.received("abide_events")) > 1
	})
}

func TestTheServerRestartsDuringPublishing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := newBus(t, natsbus.Config{URL: s.url()})
	const publishers, batches, size = 4, 30, 20
	list := envelopes(0, publishers*batches*size)
	halfway := make(chan struct{}, publishers)
	var wg sync.WaitGroup
	for own := range slices.Chunk(list, batches*size) {
		wg.Go(func() {
			n := 0
			for batch := range slices.Chunk(own, size) {
				if n++; n == batches/2 {
					halfway <- struct{}{}
				}
				check.Eventually(t, "a batch to be accepted", func() bool { return b.Publish(t.Context(), batch) == nil })
			}
		})
	}
	receive(t, "publishers to be under way", halfway)
	s.stop()
	s.start()
	wg.Wait()
	times := map[string]int{}
	for _, e := range s.received("abide_events") {
		times[e.ID]++
	}
	for _, e := range list {
		if times[e.ID] != 1 {
			t.Fatalf("envelope %s is in the stream %d times", e.ID, times[e.ID])
		}
	}
}

// TestPublishEndsWithItsContextIfNobodyReads: so much that the connection is full, and
// writing to it blocks.
func TestPublishEndsWithItsContextIfNobodyReads(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newProxy(t, s.addr())
	b := newBus(t, natsbus.Config{URL: p.url()})
	list := envelopes(0, 40)
	for i := range list {
		list[i].Payload = json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)
	}
	defer p.hang()()
	for range 2 { // the second one finds the connection blocked
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		outcome := make(chan error, 1)
		go func() { outcome <- b.Publish(ctx, list) }()
		select {
		case err := <-outcome:
			check.Error(t, err, context.DeadlineExceeded)
		case <-time.After(8 * time.Second): // sooner than the connection gives up by itself
			t.Error("Publish does not return after its context has ended")
		}
		cancel()
	}
}

// TestPublishGivesUpWithoutAnAnswer: a caller without a deadline is not held for ever.
func TestPublishGivesUpWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newProxy(t, s.addr())
	b := newBus(t, natsbus.Config{URL: p.url()})
	defer p.hang()()
	outcome := make(chan error, 1)
	go func() { outcome <- b.Publish(context.WithoutCancel(t.Context()), envelopes(0, 300)) }()
	if err := receive(t, "Publish to give up", outcome); err == nil || errors.Is(err, bus.ErrPermanent) {
		t.Errorf("Publish: %v, want an error that goes away", err)
	}
}

func TestWhatAStreamSaysIsTheOutcome(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	js := s.jetstream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "abide_events", Subjects: []string{"abide.events.>"}, MaxMsgSize: 1000}); err != nil {
		t.Fatal(err)
	}
	b := newBus(t, natsbus.Config{URL: s.url()})
	list := envelopes(0, 3)
	list[0].Payload = json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)
	list[1].Payload = json.RawMessage(`{`)
	outcomes := bus.Outcomes(b.Publish(t.Context(), list), 3)
	if !errors.Is(outcomes[0], bus.ErrPermanent) || !errors.Is(outcomes[1], bus.ErrPermanent) || outcomes[2] != nil {
		t.Errorf("too large for the stream, not JSON, and fine: %q", outcomes)
	}
	check.OK(t, js.DeleteStream(t.Context(), "abide_events"))
	if err := b.Publish(t.Context(), list[2:]); err == nil || errors.Is(err, bus.ErrPermanent) {
		t.Errorf("without a stream: %v, want an error that goes away", err)
	}
	b.Close()
	if err := b.Publish(t.Context(), list[2:]); err == nil {
		t.Error("Publish succeeds after Close")
	}
}
