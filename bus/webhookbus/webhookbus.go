package webhookbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/standardwebhooks"
)

// Bus posts envelopes to a URL.
type Bus struct {
	cfg       Config
	target    *url.URL
	name      string // of the receiver, in errors: the rest of the URL may be secret
	header    http.Header
	secrets   []standardwebhooks.Secret
	hide      *strings.Replacer
	transport *http.Transport
}

var _ bus.EventBus = (*Bus)(nil)

// New returns a bus. It makes no connection yet. An error matches [bus.ErrInvalid].
func New(cfg Config) (*Bus, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	target, err := cfg.target()
	if err != nil {
		return nil, err
	}
	secrets, err := cfg.secrets()
	if err != nil {
		return nil, err
	}
	header, err := cfg.header(target.User)
	if err != nil {
		return nil, err
	}
	return &Bus{
		cfg:       cfg,
		target:    target,
		name:      target.Scheme + "://" + target.Host,
		header:    header,
		secrets:   secrets,
		hide:      hiding(target, header),
		transport: newTransport(&cfg),
	}, nil
}

// Publish posts the envelopes, and returns when there is an outcome for each. It may
// have been accepted although the outcome is an error, if the answer was lost.
func (b *Bus) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	outcomes := make([]error, len(envelopes))
	slots := make(chan struct{}, b.cfg.Concurrency)
	var wg sync.WaitGroup
	for i := range envelopes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := b.post(ctx, &envelopes[i]); err != nil {
				outcomes[i] = fmt.Errorf("webhookbus: post envelope %s to %s: %w", envelopes[i].ID, b.name, err)
			}
		})
	}
	wg.Wait()
	return bus.Join(outcomes)
}

// Close closes the connections that are kept for later. A Publish after that makes new
// ones.
func (b *Bus) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

var errTimeout = errors.New("timeout")

func (b *Bus) post(ctx context.Context, e *bus.Envelope) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := b.request(limited, e)
	if err != nil {
		return err
	}
	stop := b.cfg.Clock.AfterFunc(b.cfg.Timeout, func() { cancel(errTimeout) })
	defer stop()
	// The transport and not a client: that would follow redirects, and put the URL into
	// its errors.
	resp, err := b.transport.RoundTrip(req)
	switch {
	case err == nil:
		defer resp.Body.Close()
		return b.outcome(resp)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(limited), errTimeout):
		return fmt.Errorf("no answer within %v", b.cfg.Timeout)
	}
	return err
}

func (b *Bus) request(ctx context.Context, e *bus.Envelope) (*http.Request, error) {
	v, err := newEvent(e, b.cfg.Source)
	if err != nil {
		return nil, err
	}
	header := b.header.Clone()
	var body []byte
	if b.cfg.Mode == Binary {
		body = v.binary(header)
	} else if body, err = v.structured(header); err != nil {
		return nil, err
	}
	if len(b.secrets) > 0 {
		// What is signed is joined with full stops, so there must be none in the ID.
		id := strings.ReplaceAll(percentEncode(e.ID), ".", "%2E")
		maps.Copy(header, standardwebhooks.Sign(id, b.cfg.Clock.Now(), body, b.secrets...))
	}
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           b.target,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		// A connection that was closed before anything was sent is replaced by another.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx), nil
}

// Batch is how many envelopes a caller should publish at once: as many as there are
// requests at a time, so that a Publish takes no longer than one request may.
func (b *Bus) Batch() int { return b.cfg.Concurrency }
