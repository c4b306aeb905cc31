package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
)

// ConsumeConfig configures [Consume].
type ConsumeConfig struct {
	// URL is the address of a server, or those of several with commas between. Either
	// this or Conn is set.
	URL string

	// Conn is a connection that stays the caller's.
	Conn *nats.Conn

	// Prefix is the first token of all subjects. Empty means abide.
	Prefix string

	// Stream is the name of the stream. Empty means the prefix followed by _commands. A missing
	// stream is created with file storage, for the subjects <prefix>.commands.>, as a work
	// queue: commands are removed once they are handled.
	Stream string

	// Consumer is the name of the durable consumer. Empty means abide. Processes with the same
	// consumer share the commands.
	Consumer string

	// Concurrency is the number of commands that are handled concurrently. Zero means 32.
	Concurrency int

	// MaxAckPending is the number of unsettled commands, over all processes, of a consumer that
	// is created. Commands that wait for a retry count. Zero means 1000.
	MaxAckPending int

	// AckWait is how long a consumer that is created waits for a sign of life of a handler
	// before it redelivers the command. Zero means 30 s.
	AckWait time.Duration

	// RetryMin and RetryMax bound the delay before a command is retried, which doubles with each
	// attempt. Zero means 1 s and 1 minute.
	RetryMin, RetryMax time.Duration

	// Refused is called for each message that can never be handled, before it is removed from
	// the stream. If it fails, or the process dies after it, it is called again. It must be set.
	Refused func(context.Context, Refused) error
}

// Refused is a message that is not a valid command.
type Refused struct {
	Position bus.Position
	Subject  string
	Data     []byte

	// Tenant is the one that the subject names: its token after <prefix>.commands. It is
	// empty if that token is not in the form of the package comment.
	Tenant string

	// Reason matches [bus.ErrInvalid] or [bus.ErrPermanent].
	Reason error
}

// Handler handles a command. It may be given the same one more than once, with the
// same position, and several at a time in any order. If it returns nil, the command
// is settled. If it returns an error that matches [bus.ErrInvalid] or
// [bus.ErrPermanent], the command is refused. After any other error it is tried again
// later: when an error from [bus.RetryAfter] says, or after a wait that grows.
type Handler func(ctx context.Context, e bus.Envelope, at bus.Position) error

// Consume gives commands to h until ctx ends. It then waits for those that are being
// handled, settles them and returns nil; the context that h is given does not end
// with ctx. While the server is away, it waits for it to come back. It returns an
// error if it cannot start, or if the consumer or the connection is taken away.
func Consume(ctx context.Context, cfg ConsumeConfig, h Handler) error {
	cfg.fillIn()
	if err := cfg.check(h); err != nil {
		return err
	}
	conn, disconnect, err := connect(cfg.URL, cfg.Conn)
	if err != nil {
		return err
	}
	defer disconnect()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("natsbus: %w", err)
	}
	consumer, err := cfg.open(ctx, js)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(
		jetstream.PullMaxMessages(cfg.Concurrency),
		jetstream.WithMessagesErrOnMissingHeartbeat(false), // it asks again by itself
	)
	if err != nil {
		return fmt.Errorf("natsbus: consume: %w", err)
	}
	d := &delivery{
		cfg: cfg, handler: h,
		ackWait: consumer.CachedInfo().Config.AckWait,
		slots:   make(chan struct{}, cfg.Concurrency),
	}
	err = d.run(ctx, messages)
	_ = conn.FlushTimeout(answerWait) // what does not get there is given out again after AckWait: late, not lost
	return err
}

func (cfg *ConsumeConfig) fillIn() {
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	if cfg.Stream == "" {
		cfg.Stream = streamName(cfg.Prefix, "commands")
	}
	if cfg.Consumer == "" {
		cfg.Consumer = "abide"
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 32
	}
	if cfg.MaxAckPending == 0 {
		cfg.MaxAckPending = 1000
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = 30 * time.Second
	}
	if cfg.RetryMin == 0 {
		cfg.RetryMin = time.Second
	}
	if cfg.RetryMax == 0 {
		cfg.RetryMax = time.Minute
	}
}

func (cfg *ConsumeConfig) check(h Handler) error {
	switch {
	case h == nil:
		return fmt.Errorf("natsbus: consume: the handler is missing: %w", bus.ErrInvalid)
	case cfg.Refused == nil:
		return fmt.Errorf("natsbus: consume: ConsumeConfig.Refused is missing: %w", bus.ErrInvalid)
	case cfg.Concurrency < 0 || cfg.MaxAckPending < 0 || cfg.AckWait < 0 || cfg.RetryMin < 0 || cfg.RetryMax < cfg.RetryMin:
		return fmt.Errorf("natsbus: consume: a limit of ConsumeConfig is negative, or RetryMax is less than RetryMin: %w", bus.ErrInvalid)
	}
	return checkPrefix(cfg.Prefix)
}

// open returns the consumer, and creates what is missing.
func (cfg *ConsumeConfig) open(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	subject := cfg.Prefix + ".commands.>"
	stream, err := openStream(ctx, js, jetstream.StreamConfig{
		Name:        cfg.Stream,
		Description: "Commands to Abide",
		Subjects:    []string{subject},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.WorkQueuePolicy,
		Duplicates:  defaultWindow,
	})
	if err != nil {
		return nil, err
	}
	consumer, err := stream.Consumer(ctx, cfg.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       cfg.Consumer,
			Description:   "Abide takes its commands",
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       cfg.AckWait,
			MaxDeliver:    -1,
			MaxAckPending: cfg.MaxAckPending,
			FilterSubject: subject,
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // created concurrently
			consumer, err = stream.Consumer(ctx, cfg.Consumer)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("natsbus: open consumer %s of stream %s: %w", cfg.Consumer, cfg.Stream, err)
	}
	if reason := unfit(consumer.CachedInfo().Config, subject); reason != "" {
		return nil, fmt.Errorf("natsbus: consumer %s of stream %s %s: %w", cfg.Consumer, cfg.Stream, reason, bus.ErrInvalid)
	}
	return consumer, nil
}

// unfit returns what makes a consumer lose commands, or nothing.
func unfit(has jetstream.ConsumerConfig, subject string) string {
	filters := has.FilterSubjects
	if has.FilterSubject != "" {
		filters = append(filters, has.FilterSubject)
	}
	switch {
	case has.AckPolicy != jetstream.AckExplicitPolicy:
		return "does not wait for each message to be acknowledged"
	case has.MaxDeliver > 0:
		return fmt.Sprintf("gives up after %d deliveries", has.MaxDeliver)
	case len(filters) > 0 && !anyCovers(filters, subject):
		return fmt.Sprintf("is for %q, and not for all of %s", filters, subject)
	}
	return ""
}

// run reads until ctx ends, or until there is nothing to read from any more.
//
// What the server has given out is read at once, so that it can be told that we have
// it and are not dead; what bounds that is the consumer's MaxAckPending.
func (d *delivery) run(ctx context.Context, messages jetstream.MessagesContext) error {
	var underWay sync.WaitGroup
	defer underWay.Wait()
	for wait := pullCheck; ; {
		msg, err := next(ctx, messages, wait)
		switch {
		case err == nil:
			underWay.Go(func() { d.deliver(ctx, msg) })
			wait = pullCheck
		case ctx.Err() != nil:
			giveBack(ctx, messages)
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			wait = 0
		default:
			messages.Stop()
			return fmt.Errorf("natsbus: consume: %w", err)
		}
	}
}

// pullCheck is how long the first wait for a message lasts after another one. The client
// sends its next pull request when it is asked for a message, but not while it is still
// sending the one before (nats.go 1.55): if all messages of that one arrive first, it
// waits for the missing heartbeat, 30 s, before it sends another. Asking it again sends
// the request at once.
const pullCheck = 50 * time.Millisecond

// next returns the next message, or [context.DeadlineExceeded] after the wait; zero waits
// for as long as it takes. Only calls that wait long notice missing heartbeats.
func next(ctx context.Context, messages jetstream.MessagesContext, wait time.Duration) (jetstream.Msg, error) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return messages.Next(jetstream.NextContext(ctx))
}

// giveBack lets others have at once what was given to us and will not be handled here.
func giveBack(ctx context.Context, messages jetstream.MessagesContext) {
	messages.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	defer cancel()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return
		}
		_ = msg.Nak() // if it does not get there, others have it after AckWait
	}
}
