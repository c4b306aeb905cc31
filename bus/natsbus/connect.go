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
	defaultPrefix = "abide"

	// defaultWindow is longer than a publisher needs to come back after a crash, and
	// is what NATS does by default too.
	defaultWindow = 2 * time.Minute
)

// connect returns the caller's connection, or one of our own to the address; and what
// is to be called in the end.
func connect(url string, conn *nats.Conn) (*nats.Conn, func(), error) {
	switch {
	case conn != nil && url != "":
		return nil, nil, fmt.Errorf("natsbus: URL and Conn are both set: %w", bus.ErrInvalid)
	case conn != nil:
		return conn, func() {}, nil
	case url == "":
		return nil, nil, fmt.Errorf("natsbus: neither URL nor Conn is set: %w", bus.ErrInvalid)
	}
	conn, err := nats.Connect(url,
		nats.Name("abide"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500*time.Millisecond),
		// What cannot be sent now fails now: the outbox keeps it, and not this process's
		// memory.
		nats.ReconnectBufSize(-1),
		// A server that is silent is found out, and so is one that reads nothing.
		nats.PingInterval(20*time.Second),
		nats.FlusherTimeout(10*time.Second),
		// What fails is told to who asked for it. The default prints it, too.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("natsbus: connect to NATS: %w", err)
	}
	return conn, conn.Close, nil
}

// openStream returns the stream of that name, and creates it if there is none. One
// that exists is taken as it is, if it keeps what has our subject.
func openStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created concurrently
			stream, err = js.Stream(ctx, cfg.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("natsbus: open stream %s: %w", cfg.Name, err)
	}
	has := stream.CachedInfo().Config
	switch {
	case !anyCovers(has.Subjects, cfg.Subjects[0]):
		return nil, fmt.Errorf("natsbus: stream %s keeps %q, and not all of %s: %w", cfg.Name, has.Subjects, cfg.Subjects[0], bus.ErrInvalid)
	case has.NoAck:
		return nil, fmt.Errorf("natsbus: stream %s does not say what it has accepted (no_ack): %w", cfg.Name, bus.ErrInvalid)
	}
	return stream, nil
}
