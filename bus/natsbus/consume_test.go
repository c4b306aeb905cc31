package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/natsbus"
	"github.com/abidehq/abide/internal/check"
)

const commands = "abide_commands"

// consumer is a Consume that runs beside a test.
type consumer struct {
	stop func()
	end  chan error
}

// consume starts a Consume, and ends it with the test at the latest.
func consume(t *testing.T, cfg natsbus.ConsumeConfig, h natsbus.Handler) *consumer {
	t.Helper()
	if cfg.Refused == nil {
		cfg.Refused = func(_ context.Context, r natsbus.Refused) error {
			t.Errorf("this was refused: %+v", r)
			return nil
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &consumer{stop: cancel, end: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.end <- natsbus.Consume(ctx, cfg, h)
	}()
	t.Cleanup(func() {
		cancel()
		receive(t, "Consume to return", ended)
	})
	return c
}

// wantEnd checks that a consumer which was stopped returns nil.
func (c *consumer) wantEnd(t *testing.T) {
	t.Helper()
	c.stop()
	if err := receive(t, "Consume to return", c.end); err != nil {
		t.Errorf("Consume: %v", err)
	}
}

// command puts messages into the stream of commands, which it creates if need be.
func (s *server) command(list ...bus.Envelope) {
	s.t.Helper()
	js := s.createStream()
	for i := range list {
		data, err := list[i].Encode()
		check.OK(s.t, err)
		if _, err := js.Publish(s.t.Context(), "abide.commands."+list[i].TenantID, data); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) createStream() jetstream.JetStream {
	s.t.Helper()
	js := s.jetstream()
	cfg := jetstream.StreamConfig{Name: commands, Subjects: []string{"abide.commands.>"}, Retention: jetstream.WorkQueuePolicy}
	if _, err := js.CreateOrUpdateStream(s.t.Context(), cfg); err != nil {
		s.t.Fatal(err)
	}
	return js
}

// wantEmpty waits until all commands are settled.
func (s *server) wantEmpty() {
	s.t.Helper()
	js := s.jetstream()
	check.Eventually(s.t, "the stream of commands to be empty", func() bool { return s.left(js, commands) == 0 })
}

// wantSettled waits until the consumer has no command left, delivered or not. A server that
// stops between the acknowledgement and the removal of a command keeps it in the stream,
// although nobody is given it again (nats-server 2.15); so the stream may not be empty.
func (s *server) wantSettled() {
	s.t.Helper()
	consumer, err := s.jetstream().Consumer(s.t.Context(), commands, "abide")
	check.OK(s.t, err)
	check.Eventually(s.t, "the commands to be settled", func() bool {
		info, err := consumer.Info(s.t.Context())
		return err == nil && info.NumPending == 0 && info.NumAckPending == 0
	})
}

func TestConsumeHandlesEveryCommand(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	list := envelopes(1, 200)
	s.command(list...)
	const concurrency = 4
	var mu sync.Mutex
	got := map[uint64]bus.Envelope{}
	now, most := 0, 0
	full := make(chan struct{})
	c := consume(t, natsbus.ConsumeConfig{URL: s.url(), Concurrency: concurrency}, func(_ context.Context, e bus.Envelope, at bus.Position) error {
		mu.Lock()
		if now++; now > most {
			if most = now; most == concurrency {
				close(full)
			}
		}
		mu.Unlock()
		<-full // all wait until as many are being handled as may be
		mu.Lock()
		defer mu.Unlock()
		now--
		if _, twice := got[at.Sequence]; twice || at.Source != commands {
			t.Errorf("%s came at %+v, twice: %v", e.ID, at, twice)
		}
		got[at.Sequence] = e
		return nil
	})
	s.wantEmpty()
	c.wantEnd(t)
	if most != concurrency || len(got) != len(list) {
		t.Errorf("%d commands were handled, %d at a time; want %d, %d at a time", len(got), most, len(list), concurrency)
	}
	for i, want := range list {
		if e := got[uint64(i+1)]; e.ID != want.ID || string(e.Payload) != string(want.Payload) {
			t.Errorf("at %d there was %+v, want %+v", i+1, e, want)
		}
	}
}

func TestConsumeCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	handled := make(chan bus.Position, 1)
	cfg := natsbus.ConsumeConfig{URL: s.url(), Prefix: "a.b", Consumer: "c", MaxAckPending: 7, AckWait: time.Minute}
	c := consume(t, cfg, func(_ context.Context, _ bus.Envelope, at bus.Position) error {
		handled <- at
		return nil
	})
	js := s.jetstream()
	var has *jetstream.ConsumerInfo
	check.Eventually(t, "the consumer to be created", func() bool {
		consumer, err := js.Consumer(t.Context(), "a_b_commands", "c")
		if err == nil {
			has = consumer.CachedInfo()
		}
		return err == nil
	})
	if has.Config.MaxAckPending != 7 || has.Config.AckWait != time.Minute || has.Config.MaxDeliver != -1 || has.Config.AckPolicy != jetstream.AckExplicitPolicy {
		t.Errorf("the consumer is %+v", has.Config)
	}
	stream, err := js.Stream(t.Context(), "a_b_commands")
	check.OK(t, err)
	is := stream.CachedInfo().Config
	if !slices.Equal(is.Subjects, []string{"a.b.commands.>"}) || is.Storage != jetstream.FileStorage || is.Retention != jetstream.WorkQueuePolicy {
		t.Errorf("the stream is %+v", is)
	}
	e := envelope(1)
	data, err := e.Encode()
	check.OK(t, err)
	if _, err := js.Publish(t.Context(), "a.b.commands.x.y", data); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "the command is at", receive(t, "the command", handled), (bus.Position{Source: "a_b_commands", Sequence: 1}))
	c.wantEnd(t)
}

// TestACrashBeforeTheAcknowledgementDeliversAgain: the connection ends when the handler
// has done its work, and before anybody could say so.
func TestACrashBeforeTheAcknowledgementDeliversAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.command(envelope(1))
	conn := s.connect()
	first := make(chan bus.Position, 1)
	c := consume(t, natsbus.ConsumeConfig{Conn: conn, AckWait: 500 * time.Millisecond}, func(_ context.Context, _ bus.Envelope, at bus.Position) error {
		first <- at
		conn.Close()
		return nil
	})
	was := receive(t, "the command", first)
	if err := receive(t, "Consume to return", c.end); err == nil {
		t.Error("Consume returns nil although its connection was taken away")
	}
	again := make(chan bus.Position, 1)
	c = consume(t, natsbus.ConsumeConfig{URL: s.url()}, func(_ context.Context, e bus.Envelope, at bus.Position) error {
		if e.ID != envelope(1).ID {
			t.Errorf("this came instead: %+v", e)
		}
		again <- at
		return nil
	})
	check.Equal(t, "the position of the command that came again", receive(t, "the command again", again), was)
	s.wantEmpty()
	c.wantEnd(t)
}

func TestACommandThatFailsIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.command(envelope(1))
	const least, most = 40 * time.Millisecond, 80 * time.Millisecond
	tries := make(chan time.Time, 10)
	n := 0
	c := consume(t, natsbus.ConsumeConfig{URL: s.url(), RetryMin: least, RetryMax: most}, func(context.Context, bus.Envelope, bus.Position) error {
		tries <- time.Now()
		switch n++; n {
		case 1:
			return errBusy
		case 2:
			panic("busy")
		case 3:
			return fmt.Errorf("come back: %w", bus.RetryAfter(errBusy, 3*most))
		}
		return nil
	})
	s.wantEmpty()
	c.wantEnd(t)
	last := receive(t, "the first try", tries)
	for i, want := range []time.Duration{least * 4 / 5, most * 4 / 5, 3 * most} {
		at := receive(t, "another try", tries)
		// Jitter shortens a wait by a fifth at most, except one that was wished for. The server waits from when it is told, which is later than when the try began.
		if waited := at.Sub(last); waited < want {
			t.Errorf("try %d came after %v, want %v at least", i+2, waited, want)
		}
		last = at
	}
	if len(tries) > 0 {
		t.Errorf("there were %d tries more", len(tries))
	}
}

func TestWhatWillNeverBeHandledIsRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	js := s.createStream()
	var bodies [][]byte
	for i, text := range []string{"hello", "{}", "", "", ""} {
		data := []byte(text)
		if i >= 2 {
			e := envelope(i)
			data, _ = e.Encode()
		}
		bodies = append(bodies, data)
		if _, err := js.Publish(t.Context(), fmt.Sprintf("abide.commands.acme.%d", i), data); err != nil {
			t.Fatal(err)
		}
	}
	refused := make(chan natsbus.Refused, 10)
	var failed, handled atomic.Int32
	c := consume(t, natsbus.ConsumeConfig{
		URL: s.url(), Concurrency: 1, RetryMin: time.Millisecond,
		Refused: func(_ context.Context, r natsbus.Refused) error {
			if r.Position.Sequence == 3 && failed.Add(1) <= 2 {
				return errBusy // it could not be kept, so it must come again
			}
			refused <- r
			return nil
		},
	}, func(_ context.Context, e bus.Envelope, _ bus.Position) error {
		switch e.ID {
		case envelope(2).ID:
			return fmt.Errorf("no due time: %w", bus.ErrInvalid)
		case envelope(3).ID:
			return fmt.Errorf("quota: %w", bus.ErrPermanent)
		}
		handled.Add(1)
		return nil
	})
	s.wantEmpty()
	c.wantEnd(t)
	close(refused)
	seen := map[uint64]bool{}
	for r := range refused {
		i := int(r.Position.Sequence) - 1
		if seen[r.Position.Sequence] || r.Position.Source != commands || r.Subject != fmt.Sprintf("abide.commands.acme.%d", i) || r.Tenant != "acme" || string(r.Data) != string(bodies[i]) {
			t.Errorf("this was refused: %+v", r)
		}
		if want := []error{bus.ErrInvalid, bus.ErrInvalid, bus.ErrInvalid, bus.ErrPermanent, nil}[i]; !errors.Is(r.Reason, want) {
			t.Errorf("message %d was refused because of %v, want %v", i, r.Reason, want)
		}
		seen[r.Position.Sequence] = true
	}
	if len(seen) != 4 || handled.Load() != 1 || failed.Load() != 3 {
		t.Errorf("%d were refused, %d handled, and %d times one was to be kept", len(seen), handled.Load(), failed.Load())
	}
}

// TestWhoTakesLongIsNotTakenForDead: neither who is being handled nor who waits for its
// turn is given to another.
func TestWhoTakesLongIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.command(envelopes(1, 3)...)
	const ackWait = 400 * time.Millisecond
	var times atomic.Int32
	cfg := natsbus.ConsumeConfig{URL: s.url(), Concurrency: 1, AckWait: ackWait}
	slowly := func(context.Context, bus.Envelope, bus.Position) error {
		times.Add(1)
		<-time.After(2 * ackWait)
		return nil
	}
	c := consume(t, cfg, slowly)
	other := consume(t, cfg, slowly) // would get what is given out again
	s.wantEmpty()
	c.wantEnd(t)
	other.wantEnd(t)
	check.Equal(t, "how often 3 commands were handled", times.Load(), 3)
}

func TestStoppingFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.command(envelopes(1, 5)...)
	began, goOn := make(chan bus.Position, 5), make(chan struct{})
	c := consume(t, natsbus.ConsumeConfig{URL: s.url(), Concurrency: 1}, func(ctx context.Context, _ bus.Envelope, at bus.Position) error {
		began <- at
		<-goOn
		return ctx.Err()
	})
	first := receive(t, "a command to be under way", began)
	js := s.jetstream()
	check.Eventually(t, "all commands to be given out", func() bool {
		consumer, err := js.Consumer(t.Context(), commands, "abide")
		return err == nil && consumer.CachedInfo().NumAckPending == 5
	})
	c.stop()
	// The others are given back at once, and not only after 30 s.
	var mu sync.Mutex
	var rest []uint64
	other := consume(t, natsbus.ConsumeConfig{URL: s.url()}, func(_ context.Context, _ bus.Envelope, at bus.Position) error {
		mu.Lock()
		defer mu.Unlock()
		rest = append(rest, at.Sequence)
		return nil
	})
	start := time.Now()
	check.Eventually(t, "the other commands to be handled", func() bool { return s.left(js, commands) == 1 })
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the other commands were handled after %v", took)
	}
	select {
	case err := <-c.end:
		t.Fatalf("Consume returned %v while a command was under way", err)
	default:
	}
	close(goOn)
	if err := receive(t, "Consume to return", c.end); err != nil {
		t.Errorf("Consume: %v", err)
	}
	check.Equal(t, "commands are left after Consume has returned", s.left(js, commands), 0)
	other.wantEnd(t)
	if len(rest) != 4 || slices.Contains(rest, first.Sequence) {
		t.Errorf("%d was handled by the first, %v by the other", first.Sequence, rest)
	}
}

func TestTheServerRestartsDuringConsuming(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const count = 300
	s.command(envelopes(1, count)...)
	var mu sync.Mutex
	handled := map[string]bus.Position{}
	halfway, goOn := make(chan struct{}), make(chan struct{})
	c := consume(t, natsbus.ConsumeConfig{URL: s.url(), Concurrency: 8, AckWait: time.Second}, func(_ context.Context, e bus.Envelope, at bus.Position) error {
		mu.Lock()
		if was, ok := handled[e.ID]; ok && was != at {
			t.Errorf("command %s was at %+v, and is at %+v", e.ID, was, at)
		}
		handled[e.ID] = at
		n := len(handled)
		mu.Unlock()
		if n == count/2 {
			close(halfway)
		}
		if n >= count/2 {
			<-goOn // and is settled, or not, by another server
		}
		return nil
	})
	receive(t, "half of the commands", halfway)
	s.stop()
	close(goOn)
	s.start()
	s.wantSettled()
	c.wantEnd(t)
	check.Equal(t, "commands were handled", len(handled), count)
}

func TestConsumeSaysWhenItsConsumerIsTakenAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.command(envelope(1))
	began := make(chan struct{})
	c := consume(t, natsbus.ConsumeConfig{URL: s.url()}, func(context.Context, bus.Envelope, bus.Position) error {
		close(began)
		return nil
	})
	receive(t, "the command", began)
	s.wantEmpty()
	check.OK(t, s.jetstream().DeleteConsumer(t.Context(), commands, "abide"))
	check.Error(t, receive(t, "Consume to return", c.end), jetstream.ErrConsumerDeleted)
}

func TestConsumeRefusesWhatWouldLoseCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	js := s.jetstream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: commands, Subjects: []string{"abide.commands.>"}}); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]jetstream.ConsumerConfig{
		"gives-up":  {AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3},
		"never":     {AckPolicy: jetstream.AckNonePolicy},
		"in-groups": {AckPolicy: jetstream.AckAllPolicy},
		"less":      {AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "abide.commands.acme.>"},
	} {
		cfg.Durable = name
		if _, err := js.CreateConsumer(t.Context(), commands, cfg); err != nil {
			t.Fatal(err)
		}
		c := consume(t, natsbus.ConsumeConfig{URL: s.url(), Consumer: name}, func(context.Context, bus.Envelope, bus.Position) error { return nil })
		if err := receive(t, "Consume to return", c.end); !errors.Is(err, bus.ErrInvalid) {
			t.Errorf("a consumer that is %s: %v, want ErrInvalid", name, err)
		}
	}
	handler := func(context.Context, bus.Envelope, bus.Position) error { return nil }
	refused := func(context.Context, natsbus.Refused) error { return nil }
	for _, err := range []error{
		natsbus.Consume(t.Context(), natsbus.ConsumeConfig{URL: s.url(), Refused: refused}, nil),
		natsbus.Consume(t.Context(), natsbus.ConsumeConfig{URL: s.url()}, handler),
		natsbus.Consume(t.Context(), natsbus.ConsumeConfig{Refused: refused}, handler),
		natsbus.Consume(t.Context(), natsbus.ConsumeConfig{URL: s.url(), Refused: refused, Prefix: "*"}, handler),
		natsbus.Consume(t.Context(), natsbus.ConsumeConfig{URL: s.url(), Refused: refused, RetryMin: time.Hour}, handler),
	} {
		check.Error(t, err, bus.ErrInvalid)
	}
}
