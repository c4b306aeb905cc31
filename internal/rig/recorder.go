package rig

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/bus"
)

// Recorder is a sink that keeps what is published to it. The zero value accepts everything.
type Recorder struct {
	mu       sync.Mutex
	calls    []Publication
	accepted []bus.Envelope
	respond  func(ctx context.Context, envelopes []bus.Envelope) error
}

// Publication is a call to Publish.
type Publication struct {
	At        time.Time // when it began
	Envelopes []bus.Envelope
	Err       error // what it returned
}

var _ bus.EventBus = (*Recorder)(nil)

// Publish keeps the envelopes, and those that it accepts once more.
func (r *Recorder) Publish(ctx context.Context, envelopes []bus.Envelope) (err error) {
	began := time.Now()
	r.mu.Lock()
	respond := r.respond
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, Publication{began, slices.Clone(envelopes), err})
	}()
	if respond != nil {
		err = respond(ctx, envelopes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, refused := range bus.Outcomes(err, len(envelopes)) {
		if refused == nil {
			r.accepted = append(r.accepted, envelopes[i])
		}
	}
	return err
}

// Respond has f answer each call from now on; nil accepts everything.
func (r *Recorder) Respond(f func(ctx context.Context, envelopes []bus.Envelope) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = f
}

// Refuse has f decide on each envelope from now on; nil accepts everything.
func (r *Recorder) Refuse(f func(bus.Envelope) error) {
	if f == nil {
		r.Respond(nil)
		return
	}
	r.Respond(func(_ context.Context, envelopes []bus.Envelope) error {
		outcomes := make([]error, len(envelopes))
		for i, e := range envelopes {
			outcomes[i] = f(e)
		}
		return bus.Join(outcomes)
	})
}

// Fail has each call fail from now on.
func (r *Recorder) Fail(err error) {
	r.Respond(func(context.Context, []bus.Envelope) error { return err })
}

// Calls returns the calls that have ended.
func (r *Recorder) Calls() []Publication {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Accepted returns the envelopes that were accepted, in order.
func (r *Recorder) Accepted() []bus.Envelope {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.accepted)
}

// Log keeps the lines of a logger, and can be read while they are written.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes here what is of that level or above.
func (l *Log) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
