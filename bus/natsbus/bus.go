package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
)

const (
	// inFlight is how many messages wait for the stream's answer at a time. With the
	// largest envelopes that is as much as a server takes in before it refuses more.
	inFlight = 128

	// answerWait is how long the stream may take to answer.
	answerWait = 5 * time.Second
)

// Config configures a [Bus].
type Config struct {
	// URL is the address of a server, or those of several with commas between. Either
	// this or Conn is set.
	URL string

	// Conn is a connection that stays the caller's. It should have no buffer for what
	// is published while it is broken (nats.ReconnectBufSize(-1)): that is lost with
	// the process, and is published again anyway.
	Conn *nats.Conn

	// Prefix is the first token of all subjects. Empty means abide.
	Prefix string

	// Stream is the name of the stream. Empty means the prefix followed by _events. A missing
	// stream is created with file storage, for the subjects <prefix>.events.>.
	Stream string

	// Window is the deduplication window of a stream that is created. Zero means 2 minutes.
	Window time.Duration
}

// Bus publishes to a stream. An envelope is accepted when the stream has acknowledged
// it, or has said that it has it already.
type Bus struct {
	prefix, stream string
	conn           *nats.Conn
	js             jetstream.JetStream
	disconnect     func()

	// slots has an element for each message that is in flight.
	slots chan struct{}
}

var _ bus.EventBus = (*Bus)(nil)

// New connects, and creates the stream if it is missing. It returns an error that
// matches [bus.ErrInvalid] if the stream exists and is not for our subjects.
func New(ctx context.Context, cfg Config) (*Bus, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	if cfg.Stream == "" {
		cfg.Stream = streamName(cfg.Prefix, "events")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if err := checkPrefix(cfg.Prefix); err != nil {
		return nil, err
	}
	conn, disconnect, err := connect(cfg.URL, cfg.Conn)
	if err != nil {
		return nil, err
	}
	b := &Bus{
		prefix: cfg.Prefix, stream: cfg.Stream,
		conn: conn, disconnect: disconnect,
		slots: make(chan struct{}, inFlight),
	}
	b.js, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*inFlight), jetstream.WithPublishAsyncTimeout(answerWait))
	if err == nil {
		_, err = openStream(ctx, b.js, jetstream.StreamConfig{
			Name:        cfg.Stream,
			Description: "Events of Abide",
			Subjects:    []string{cfg.Prefix + ".events.>"},
			Storage:     jetstream.FileStorage,
			Duplicates:  cfg.Window,
		})
	}
	if err != nil {
		disconnect()
		return nil, err
	}
	return b, nil
}

// Close ends the connection, unless it is the caller's. Publish fails from then on.
func (b *Bus) Close() {
	b.js.CleanupPublisher()
	b.disconnect()
}

// Publish sends all the envelopes before it waits for the first answer, as far as the
// number of messages in flight allows. It fails at once while there is no connection.
func (b *Bus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	if len(envelopes) == 0 {
		return nil
	}
	outcomes := make([]error, len(envelopes))
	messages := make([]*nats.Msg, len(envelopes))
	for i := range envelopes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("natsbus: publish: %w", err)
		}
		messages[i], outcomes[i] = b.message(&envelopes[i])
	}
	// A connection whose other end reads nothing blocks who writes to it, whatever the
	// context says. So another goroutine writes, with nothing of the caller's.
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.send(ctx, messages, outcomes)
	}()
	select {
	case <-done:
		return bus.Join(outcomes)
	case <-ctx.Done():
		return fmt.Errorf("natsbus: publish: %w", ctx.Err())
	}
}

func (b *Bus) message(e *bus.Envelope) (*nats.Msg, error) {
	data, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("natsbus: publish: %w: %w", err, bus.ErrPermanent)
	}
	m := nats.NewMsg(b.prefix + ".events." + token(e.TenantID) + "." + token(e.Type))
	m.Data = data
	m.Header.Set(jetstream.MsgIDHeader, e.ID)
	return m, nil
}

// send publishes the messages in their order, and records the outcome of each.
// Nil messages have their outcome already. After one that fails for a reason that may
// go away, those that have not been sent yet are not sent: they would overtake it, and
// most likely fail too.
func (b *Bus) send(ctx context.Context, messages []*nats.Msg, outcomes []error) {
	answers := make([]jetstream.PubAckFuture, len(messages))
	var broken error
	note := func(i int, err error) {
		if outcomes[i] = err; err != nil && !errors.Is(err, bus.ErrPermanent) {
			broken = err
		}
	}
	settled := 0 // all before this one have their outcome
	settle := func() {
		if answers[settled] != nil {
			note(settled, b.await(ctx, answers[settled]))
			<-b.slots
		}
		settled++
	}
	send := func(i int) error {
		if broken != nil {
			return broken
		}
		err := b.takeSlot(ctx, func() bool {
			if settled == i {
				return false
			}
			settle()
			return true
		})
		if err != nil {
			return err
		}
		if err = broken; err == nil { // settling others may have shown that
			answers[i], err = b.publish(messages[i])
		}
		if err != nil {
			<-b.slots
		}
		return err
	}
	for i, m := range messages {
		if m == nil {
			continue
		}
		if err := send(i); err != nil {
			note(i, err)
		}
	}
	for settled < len(messages) {
		settle()
	}
}

// takeSlot waits until one more message may be in flight. Who has messages in flight settles its
// own first, so that no two wait for each other.
func (b *Bus) takeSlot(ctx context.Context, settleOne func() bool) error {
	for {
		select {
		case b.slots <- struct{}{}:
			return nil
		default:
		}
		if settleOne() {
			continue
		}
		select {
		case b.slots <- struct{}{}:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("natsbus: publish: %w", ctx.Err())
		}
	}
}

func (b *Bus) publish(m *nats.Msg) (jetstream.PubAckFuture, error) {
	if !b.conn.IsConnected() {
		return nil, failed(m, nats.ErrDisconnected)
	}
	// A retry behind our back would come after messages that were sent later.
	answer, err := b.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0), jetstream.WithExpectStream(b.stream))
	if err != nil {
		return nil, failed(m, err)
	}
	return answer, nil
}

func (b *Bus) await(ctx context.Context, answer jetstream.PubAckFuture) error {
	select {
	case <-answer.Ok(): // also for a duplicate: the stream has it
		return nil
	case err := <-answer.Err():
		return failed(answer.Msg(), err)
	case <-ctx.Done():
		return failed(answer.Msg(), ctx.Err())
	}
}

// failed says which envelope failed, and whether it always will.
func failed(m *nats.Msg, err error) error {
	id := m.Header.Get(jetstream.MsgIDHeader)
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
		return fmt.Errorf("natsbus: publish envelope %s: %w: %w", id, err, bus.ErrPermanent)
	}
	return fmt.Errorf("natsbus: publish envelope %s: %w", id, err)
}
