package workerhost

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerpb"
)

// deaf is a stream of a worker that sends and does not receive.
type deaf struct {
	from    chan *workerpb.FromWorker
	sending chan struct{} // has an element when something is about to be sent
	ended   <-chan struct{}
}

func (d *deaf) Send(*workerpb.ToWorker) error {
	d.sending <- struct{}{}
	<-d.ended
	return io.EOF
}

func (d *deaf) Recv() (*workerpb.FromWorker, error) {
	select {
	case m := <-d.from:
		return m, nil
	case <-d.ended:
		return nil, io.EOF
	}
}

// newDeaf returns a session with a worker that does not receive, and the error with which it ends.
func newDeaf(clock base.Clock, reply func(*workerpb.Request) *workerpb.Reply) (*Session, *deaf, <-chan error) {
	s := New(Config{
		Clock: clock, Logger: slog.New(slog.DiscardHandler), Lost: func() {}, Leave: func() {},
		Request: func(_ context.Context, r *workerpb.Request) *workerpb.Reply { return reply(r) },
	})
	d := &deaf{from: make(chan *workerpb.FromWorker), sending: make(chan struct{}, 1), ended: s.Gone()}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(d) }()
	return s, d, ended
}

func wantEnd(t *testing.T, ended <-chan error, text string) {
	t.Helper()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the session ended with %v, want %q", err, text)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the session does not end")
	}
}

// TestWorkerThatDoesNotReceive: a worker that does not receive a message in time is lost, and what it was to do
// returns.
func TestWorkerThatDoesNotReceive(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.UnixMilli(1_800_000_000_000))
	s, d, ended := newDeaf(clock, nil)
	result := make(chan *history.Failure, 1)
	go func() {
		_, failure := s.Activity(context.Background(), &engine.Task{Name: "a", Attempt: 1})
		result <- failure
	}()
	<-d.sending
	clock.Advance(sendLimit - time.Millisecond)
	check.Equal(t, "has ended", len(ended), 0)
	clock.Advance(time.Millisecond)
	wantEnd(t, ended, "has not received a message within 30s")
	if failure := <-result; failure != engine.WorkerLost {
		t.Errorf("the activity failed with %v", failure)
	}
}

// TestRepliesAreBounded: a worker that asks and does not receive the answers is lost when many of them wait, or
// much.
func TestRepliesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		most int // requests
		want string
	}{
		"many": {0, maxRequests, "there are more than"},
		"much": {4 << 20, maxUnsent>>22 + 1, "does not receive what it asks for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := make([]byte, c.size)
			_, d, ended := newDeaf(base.System{}, func(*workerpb.Request) *workerpb.Reply { return &workerpb.Reply{Instance: body} })
			d.from <- &workerpb.FromWorker{Requests: []*workerpb.Request{{Id: 1}}}
			<-d.sending // the first message is being sent, for ever
			for i := range c.most + 1 {
				select {
				case d.from <- &workerpb.FromWorker{Requests: []*workerpb.Request{{Id: uint64(i) + 2}}}:
				case <-d.ended:
				}
			}
			wantEnd(t, ended, c.want)
		})
	}
}
