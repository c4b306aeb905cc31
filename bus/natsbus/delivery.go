package natsbus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
)

// delivery is what happens to the messages of one Consume.
//
// No error of an acknowledgement is reported: a message that the server believes
// unsettled is given out again, which is what should happen.
type delivery struct {
	cfg     ConsumeConfig
	handler Handler
	ackWait time.Duration

	// slots has an element for each message that is being handled.
	slots chan struct{}
}

// deliver handles a message and settles it, unless ctx ends before it is its turn.
func (d *delivery) deliver(ctx context.Context, msg jetstream.Msg) {
	stop := d.keep(ctx, msg)
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		stop()
		_ = msg.Nak()
		return
	}
	ctx = context.WithoutCancel(ctx)
	meta, err := msg.Metadata()
	if err == nil {
		err = d.handle(ctx, msg, meta)
	}
	<-d.slots
	stop()
	switch {
	case err == nil:
		// Waits for the server's answer, so that who stops after Consume has returned
		// knows that it was told.
		ctx, cancel := context.WithTimeout(ctx, answerWait)
		defer cancel()
		_ = msg.DoubleAck(ctx)
	case errors.Is(err, errRefused):
		_ = msg.TermWithReason(reason(err))
	default:
		_ = msg.NakWithDelay(d.delay(err, meta))
	}
}

// keep tells the server now and then that the message is being worked on, until stop
// is called.
func (d *delivery) keep(ctx context.Context, msg jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for base.Sleep(ctx, base.System{}, d.ackWait/3) == nil {
			_ = msg.InProgress()
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// errRefused marks a message that the caller has been told of, and that nobody needs
// any more.
var errRefused = errors.New("refused")

func (d *delivery) handle(ctx context.Context, msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
	at := bus.Position{Source: meta.Stream, Sequence: meta.Sequence.Stream}
	e, err := bus.Decode(msg.Data())
	if err == nil {
		err = d.call(func() error { return d.handler(ctx, e, at) })
	}
	if !errors.Is(err, bus.ErrInvalid) && !errors.Is(err, bus.ErrPermanent) {
		return err
	}
	refused := Refused{Position: at, Subject: msg.Subject(), Tenant: tenantOf(d.cfg.Prefix, msg.Subject()), Data: msg.Data(), Reason: err}
	if err := d.call(func() error { return d.cfg.Refused(ctx, refused) }); err != nil {
		return fmt.Errorf("natsbus: keep what was refused: %w", err)
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// call makes an error of a panic: one command must not take the others with it.
func (d *delivery) call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("natsbus: a handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// delay returns how long to wait until a message is tried again: twice as long after
// each delivery, with jitter.
func (d *delivery) delay(err error, meta *jetstream.MsgMetadata) time.Duration {
	if after, ok := bus.RetryDelay(err); ok {
		return after
	}
	if meta == nil {
		return d.cfg.RetryMin
	}
	wait := backoff.Exponential{First: d.cfg.RetryMin, Max: d.cfg.RetryMax, Factor: 2}
	return wait.Delay(meta.Stream+"/"+strconv.FormatUint(meta.Sequence.Stream, 10), int(meta.NumDelivered))
}

// reason returns what an operator sees in the server's advisory: one line, not long.
func reason(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
