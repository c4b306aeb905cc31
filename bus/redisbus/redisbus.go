// Package redisbus publishes envelopes to a stream of Redis or of a compatible server, such as
// Valkey.
//
// Each envelope is an entry with the fields id, type, tenant, correlation, time (in
// milliseconds since 1970) and envelope, which is the whole envelope in its JSON form.
// Beside the stream there is a key for each envelope of the last while, so that one
// which is published again does not become another entry. Entry and key are written
// by one script, and are in the same slot of a cluster.
//
// An envelope that was accepted is as durable as the server writes: with appendonly
// yes and appendfsync always, accepted means on disk; with everysec, what Debian and
// most services do, a crash of the machine loses about a second; without an
// append-only file, more. A failover to a replica may lose what had not been copied
// yet. The outbox does not publish again what was accepted, so who must not lose an
// event chooses accordingly.
package redisbus

import (
	"context"
	"crypto/tls"
	_ "embed" // for the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/bus"
)

const (
	defaultStream = "abide:events"
	defaultMaxLen = 1_000_000
	defaultWindow = 10 * time.Minute

	// A script runs alone on the server, so each call is for this many envelopes or
	// bytes at most.
	maxBatch      = 100
	maxBatchBytes = 1 << 20
)

// Config configures a [Bus].
type Config struct {
	// Client is a connection that stays the caller's. Either this or Addresses is set.
	Client rueidis.Client

	// Addresses are those of the server, or of some servers of a cluster, each as
	// host:port.
	Addresses []string

	// Username and Password are for servers that ask for them.
	Username, Password string

	// TLS is not nil for servers that are talked to through TLS.
	TLS *tls.Config

	// Stream is the key of the stream. Empty means abide:events.
	Stream string

	// MaxLen is the approximate number of entries that the stream keeps. Older entries are
	// removed, read or unread. Zero means a million, and a negative value means that all are
	// kept.
	MaxLen int64

	// Window is the deduplication window. Zero means 10 minutes.
	Window time.Duration
}

// Bus publishes to a stream. An envelope is accepted when it is an entry of the
// stream, or has been one within the window.
type Bus struct {
	client         rueidis.Client
	own            bool
	stream, seen   string
	maxLen, window string
}

var _ bus.EventBus = (*Bus)(nil)

//go:embed publish.lua
var source string

// script is sent by its hash, and as a whole to a server that does not know it.
var script = rueidis.NewLuaScript(source)

// New connects to the server. It returns an error that matches [bus.ErrInvalid] if the
// configuration cannot be.
func New(cfg Config) (*Bus, error) {
	if cfg.Stream == "" {
		cfg.Stream = defaultStream
	}
	if cfg.MaxLen == 0 {
		cfg.MaxLen = defaultMaxLen
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	seen, err := seenPrefix(cfg.Stream)
	switch {
	case err != nil:
		return nil, err
	case cfg.Window < time.Millisecond:
		return nil, fmt.Errorf("redisbus: the window of %v is less than a millisecond: %w", cfg.Window, bus.ErrInvalid)
	case (cfg.Client == nil) == (len(cfg.Addresses) == 0):
		return nil, fmt.Errorf("redisbus: either Client or Addresses must be set: %w", bus.ErrInvalid)
	}
	b := &Bus{
		client: cfg.Client, stream: cfg.Stream, seen: seen,
		maxLen: strconv.FormatInt(cfg.MaxLen, 10),
		window: strconv.FormatInt(cfg.Window.Milliseconds(), 10),
	}
	if b.client == nil {
		b.own = true
		b.client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: cfg.Addresses, Username: cfg.Username, Password: cfg.Password, TLSConfig: cfg.TLS,
			ClientName: "abide", DisableCache: true,
		})
		if err != nil {
			return nil, fmt.Errorf("redisbus: connect to Redis: %w", err)
		}
	}
	return b, nil
}

// seenPrefix returns how the keys start that say which envelopes the stream has had.
// A cluster chooses the slot by what is between the first braces, or else by all of
// the key: the prefix must have between them what the stream has.
func seenPrefix(stream string) (string, error) {
	if !strings.ContainsAny(stream, "{}") {
		return "{" + stream + "}:seen:", nil
	}
	_, rest, open := strings.Cut(stream, "{")
	if tag, _, closed := strings.Cut(rest, "}"); open && closed && tag != "" {
		return stream + ":seen:", nil
	}
	return "", fmt.Errorf("redisbus: stream %q has braces with nothing between them, which a cluster cannot place: %w", stream, bus.ErrInvalid)
}

// Close ends the connection, unless it is the caller's. Publish fails from then on.
func (b *Bus) Close() {
	if b.own {
		b.client.Close()
	}
}

// Publish calls the script once for each portion of the envelopes. After one that
// fails, those that follow are not sent, so that they do not overtake it.
func (b *Bus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	if len(envelopes) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redisbus: publish: %w", err)
	}
	outcomes := make([]error, len(envelopes))
	p := b.newPortion()
	for i := range envelopes {
		e := &envelopes[i]
		data, err := e.Encode()
		if err != nil {
			outcomes[i] = fmt.Errorf("redisbus: publish: %w: %w", err, bus.ErrPermanent)
			continue
		}
		if len(p.indexes) == maxBatch || p.bytes+len(data) > maxBatchBytes {
			if err := b.send(ctx, p, outcomes); err != nil {
				p = b.newPortion()
				fill(outcomes[i:], err)
				break
			}
			p = b.newPortion()
		}
		p.add(i, e, b.seen+e.ID, string(data))
	}
	if len(p.indexes) > 0 {
		_ = b.send(ctx, p, outcomes) // it is the last one, and is in outcomes
	}
	return bus.Join(outcomes)
}

// portion is what one call of the script is given.
type portion struct {
	indexes    []int // of its envelopes
	keys, args []string
	bytes      int
}

func (b *Bus) newPortion() *portion {
	return &portion{keys: []string{b.stream}, args: []string{b.maxLen, b.window}}
}

func (p *portion) add(index int, e *bus.Envelope, key, data string) {
	p.indexes = append(p.indexes, index)
	p.keys = append(p.keys, key)
	p.args = append(p.args, e.ID, e.Type, e.TenantID, e.CorrelationID, strconv.FormatInt(e.TimestampMs, 10), data)
	p.bytes += len(data)
}

// send calls the script, and records the outcome of each envelope. It returns an
// error if that is unknown.
func (b *Bus) send(ctx context.Context, p *portion, outcomes []error) error {
	answers, err := script.Exec(ctx, b.client, p.keys, p.args).AsStrSlice()
	if err == nil && len(answers) != len(p.indexes) {
		err = fmt.Errorf("the script answers for %d of %d envelopes", len(answers), len(p.indexes))
	}
	if err != nil {
		err = fmt.Errorf("redisbus: publish: %w", err)
		for _, i := range p.indexes {
			outcomes[i] = err
		}
		return err
	}
	for n, i := range p.indexes {
		if answers[n] != "" {
			outcomes[i] = fmt.Errorf("redisbus: publish: %w", errors.New(answers[n]))
		}
	}
	return nil
}

func fill(outcomes []error, err error) {
	for i := range outcomes {
		outcomes[i] = err
	}
}
