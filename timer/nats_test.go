package timer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/natsbus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// natsServer is a NATS server with JetStream that can be started again.
type natsServer struct {
	t       *testing.T
	options natsserver.Options
	running *natsserver.Server
}

func newNATS(t *testing.T) *natsServer {
	t.Helper()
	s := &natsServer{t: t, options: natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}}
	s.start()
	addr, ok := s.running.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the server listens on %v", s.running.Addr())
	}
	s.options.Port = addr.Port
	t.Cleanup(s.stop)
	return s
}

func (s *natsServer) start() {
	s.t.Helper()
	options := s.options
	running, err := natsserver.NewServer(&options)
	check.OK(s.t, err)
	go running.Start()
	if !running.ReadyForConnections(30 * time.Second) {
		s.t.Fatal("the NATS server does not start")
	}
	s.running = running
}

func (s *natsServer) stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// restart has the server be away for a moment.
func (s *natsServer) restart() {
	s.t.Helper()
	s.stop()
	<-time.After(100 * time.Millisecond)
	s.start()
}

func (s *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

func (s *natsServer) bus() *natsbus.Bus {
	s.t.Helper()
	b, err := natsbus.New(s.t.Context(), natsbus.Config{URL: s.url()})
	check.OK(s.t, err)
	s.t.Cleanup(b.Close)
	return b
}

func (s *natsServer) jetstream() jetstream.JetStream {
	s.t.Helper()
	conn, err := nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	check.OK(s.t, err)
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	check.OK(s.t, err)
	return js
}

// received returns all that is in the stream of events.
func (s *natsServer) received() (list []bus.Envelope) {
	s.t.Helper()
	stream, err := s.jetstream().Stream(s.t.Context(), "abide_events")
	check.OK(s.t, err)
	for sequence := range stream.CachedInfo().State.LastSeq {
		msg, err := stream.GetMsg(s.t.Context(), sequence+1)
		check.OK(s.t, err)
		e, err := bus.Decode(msg.Data)
		check.OK(s.t, err)
		list = append(list, e)
	}
	return list
}

// drained waits until a stream is empty.
func (s *natsServer) drained(name string) {
	s.t.Helper()
	js := s.jetstream()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(5 * time.Millisecond) {
		stream, err := js.Stream(s.t.Context(), name)
		if err == nil && stream.CachedInfo().State.Msgs == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("stream %s does not get empty: %v", name, err)
		}
	}
}

// TestNATSHasEachEnvelopeOnce: a process is killed after it has published, and the server is
// started again. What is published twice is in the stream once.
func TestNATSHasEachEnvelopeOnce(t *testing.T) {
	t.Parallel()
	s := newNATS(t)
	b := &broker{bus: s.bus(), trouble: s.restart, received: s.received}
	b.run(t, brokerWorld(t))
}

// TestTimersWorkWithMessagesAlone: commands come from NATS and events go there, and nobody
// calls the service. Commands are given out again, and in any order, when the store fails
// or the server is started again.
func TestTimersWorkWithMessagesAlone(t *testing.T) {
	t.Parallel()
	s := newNATS(t)
	w := brokerWorld(t)
	calls := 0
	faulty := storetest.NewFaulty(w.Store, func(c storetest.Call) storetest.Fault {
		if c.Method != "Commit" {
			return storetest.NoFault
		}
		if calls++; calls%5 == 0 {
			return storetest.FailAfter
		}
		return storetest.NoFault
	})
	consume(t, s, w.service(faulty))

	const timers = 60
	js := s.jetstream()
	sent := 0
	send := func(kind, payload string) {
		t.Helper()
		sent++
		e := bus.Envelope{
			ID: strconv.Itoa(sent), Type: kind, TenantID: "acme", CorrelationID: "request",
			TimestampMs: time.Now().UnixMilli(), Payload: []byte(payload),
		}
		data, err := e.Encode()
		check.OK(t, err)
		if _, err := js.Publish(t.Context(), "abide.commands.acme."+kind, data, jetstream.WithMsgID(strconv.Itoa(sent)), jetstream.WithRetryAttempts(50)); err != nil {
			t.Fatal(err)
		}
	}
	due, later := w.At(time.Second), w.At(2*time.Second)
	for i := range timers {
		send(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"%d","dueAt":%d,"payload":%d}`, i, due.UnixMilli(), i))
		switch i % 3 {
		case 1:
			send(timer.TypeCancelTimer, fmt.Sprintf(`{"serviceCallId":"%d"}`, i))
		case 2:
			send(timer.TypeScheduleTimer, fmt.Sprintf(`{"serviceCallId":"%d","dueAt":%q,"payload":%d}`, i, later.UTC().Format(time.RFC3339Nano), i))
		}
	}
	send(timer.TypeScheduleTimer, `{"serviceCallId":"","delayMs":1}`) // nobody can apply that
	s.restart()
	// All commands come before anything fires, so that it is known what should.
	s.drained("abide_commands")
	w.process(faulty, func(c *timer.Config) {
		c.Sinks = []outbox.Sink{{Name: w.sinks[0].name, Bus: s.bus(), Retry: outbox.Retry{First: 20 * time.Millisecond}}}
	})
	w.WaitUntil(2 * time.Second)
	w.WaitIdle()
	noteAll(t, w, s.received())
	got := map[int]int{}
	for _, e := range w.sinks[0].arrivals() {
		got[e.call]++
		want := map[int]time.Time{0: due, 2: later}[e.call%3]
		if !e.event.DueAt.Equal(want) || e.event.ServiceCallID != strconv.Itoa(e.call) || e.Type != timer.TypeDueTimeReached || e.CorrelationID != "request" {
			t.Errorf("timer %d was due at %s, want %s: %+v", e.call, clock(e.event.DueAt), clock(want), e.Envelope)
		}
	}
	for i := range timers {
		if want := map[int]int{0: 1, 1: 0, 2: 1}[i%3]; got[i] != want {
			t.Errorf("timer %d has %d envelopes, want %d", i, got[i], want)
		}
	}
	page, err := w.Store.List(t.Context(), store.Query{Kind: store.KindQuarantine})
	check.OK(t, err)
	refused := map[string]bool{} // who does not know whether it was kept keeps it again
	for _, r := range page.Records {
		refused[r.Tags[store.TagKey]] = true
	}
	if len(refused) != 1 {
		t.Errorf("%d messages are in quarantine, want the one that nobody can apply: %v", len(refused), refused)
	}
}

// consume has the service apply what comes from NATS, until the test ends.
func consume(t *testing.T, s *natsServer, service *timer.Service) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	cfg := natsbus.ConsumeConfig{
		URL: s.url(), RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond, AckWait: time.Second,
		Refused: func(ctx context.Context, r natsbus.Refused) error {
			return service.Refuse(ctx, r.Tenant, r.Data, r.Position, r.Reason)
		},
	}
	go func() { done <- natsbus.Consume(ctx, cfg, service.Handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	// The stream exists once it has a consumer.
	js := s.jetstream()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if _, err := js.Consumer(t.Context(), "abide_commands", "abide"); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody consumes commands")
		}
	}
}
