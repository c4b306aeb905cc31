package timers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

const (
	sink  = bench.Name // where envelopes go
	queue = "timers"   // where the messages of armed timers wait
)

// workload is the options of a run.
type workload struct {
	n, herd                int
	over, lead             time.Duration
	clients                int
	duration               time.Duration
	bulk, tenants, payload int
	pending                int
	flags                  *pflag.FlagSet

	service *timer.Service
	book    book
	far     int // how many timers were scheduled that are not due in the run
	began   time.Time
}

var _ bench.Loader = (*workload)(nil)

// Spec describes the workload.
func Spec() bench.Spec {
	return bench.Spec{
		Name:  "timers",
		Short: "Measure tenant timers: how fast they are scheduled, and how late they are published",
		Long: `Measure tenant timers: how fast they are scheduled, and how late they are published.

First, clients schedule one timer after another, for a while. Then timers are scheduled
in bulk, which begin to be due when all of them are there, at random times. They are
published to a subscriber in this process. The lateness is from the time at which a timer
is due to the moment at which the subscriber receives it, by the clock of this machine.

With --herd all timers of one tenant are due at the same instant, and a few of another
tenant while they are drained.

With --pending there are timers first that are not due in the run. Memory is what the
process has then. --reopen opens the store again, after it was closed or after the
process that had scheduled them was killed, and measures how long that takes until a new
timer is published. --idle measures the CPU of the process while they wait.

One service fires the timers, in this process. Without --store the embedded store is
measured, in a folder of the working directory that is removed afterwards. A store that
is given keeps the timers, of tenants whose names begin with abide-bench-; what it holds
besides is not touched, except that all timers that are due are fired too: do not give
the store of a program.`,
		Example: `  abide bench timers
  abide bench timers --n 1000000 --over 100s --duration 0 --json
  abide bench timers --herd 1000000
  abide bench timers --pending 10000000 --reopen=crash --idle 20s`,
		New: newWorkload,
	}
}

func newWorkload(f *pflag.FlagSet, c *bench.Config) bench.Workload {
	w := &workload{flags: f}
	f.IntVar(&w.n, "n", 100_000, "timers that are due within --over")
	f.DurationVar(&w.over, "over", 10*time.Second, "the time over which they are due")
	f.DurationVar(&w.lead, "lead", 0, "the time between the first that is scheduled and the first that is due; as long as it probably takes to schedule them if not given")
	f.IntVar(&w.herd, "herd", 0, "timers that are due at the same instant, instead of --n")
	f.IntVar(&w.clients, "clients", 64, "clients that schedule one timer after another")
	f.DurationVar(&w.duration, "duration", 5*time.Second, "how long they do; 0 leaves that out")
	f.IntVar(&w.bulk, "bulk", 1000, "timers that are scheduled in one commit")
	f.IntVar(&w.tenants, "tenants", 10, "tenants that the timers belong to")
	f.IntVar(&w.payload, "payload", 64, "bytes that each timer carries")
	f.IntVar(&w.pending, "pending", 0, "timers that are there first, and are not due in the run")
	c.IdleFlag(f, 0, "measure the CPU for so long while nothing is due")
	c.ReopenFlag(f)
	c.WarmupFlag(f)
	return w
}

// Name implements [bench.Workload].
func (w *workload) Name() string { return "timers" }

// besides is more than a timer takes in a commit besides its payload, which is in its
// record and in its message.
const besides = 512

// Validate implements [bench.Workload].
func (w *workload) Validate(c *bench.Config) error {
	for _, flag := range []string{"n", "over", "clients", "duration"} {
		if w.herd != 0 && w.flags.Changed(flag) {
			return bench.Invalid("--%s is about timers that are not due at the same instant, and with --herd all are: give one or the other", flag)
		}
	}
	err := cmp.Or(
		bench.Within("pending", w.pending, 0, bench.MaxLoad),
		bench.Within("clients", w.clients, 1, bench.MaxClients),
		bench.Within("n", w.n, 1, bench.MaxDue),
		bench.Within("herd", w.herd, 0, bench.MaxDue),
		bench.Within("bulk", w.bulk, 1, timer.MaxBulk),
		bench.Within("tenants", w.tenants, 1, 10_000),
		bench.Within("payload", w.payload, 0, timer.DefaultPayload),
		bench.NotNegative("duration", w.duration),
		bench.Within("over", w.over, 1, bench.MaxOver),
		bench.Within("lead", w.lead, 0, bench.MaxOver),
	)
	if bytes := w.bulk * (2*w.payload + besides); err == nil && bytes > store.MaxTxBytes {
		err = bench.Invalid("--bulk is %d and --payload %d: that is about %d bytes in a commit, and at most %d are allowed", w.bulk, w.payload, bytes, store.MaxTxBytes)
	}
	if err == nil && c.Reopen != bench.ReopenNever && w.pending == 0 {
		err = bench.Invalid("--reopen opens a store with timers that are pending: it needs --pending")
	}
	return err
}

// Open implements [bench.Workload].
func (w *workload) Open(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	w.began, w.book.run = time.Now(), r.ID
	local := &bus.Local{}
	local.Subscribe(bus.Filter{Type: timer.TypeDueTimeReached}, w.book.note)
	w.service, err = timer.New(timer.Config{Store: r.Store, Sinks: []outbox.Sink{{Name: sink, Bus: local}}, Logger: r.Logger})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := w.service.Run(running); err != nil {
			r.Fail(fmt.Errorf("bench: fire timers: %w", err))
		}
	}()
	return func() error {
		cancel()
		<-over
		return nil
	}, nil
}

// armed returns how many timers are armed.
func armed(ctx context.Context, r *bench.Run) (int, error) {
	n, _, err := r.Messages(ctx, func(q, _ string) bool { return q == queue })
	return n, err
}

// Load implements [bench.Loader]: it schedules as many timers as are missing.
func (w *workload) Load(ctx context.Context, r *bench.Run) error {
	if w.pending == 0 {
		return nil
	}
	there, err := armed(ctx, r)
	if err != nil {
		return err
	}
	if missing := w.pending - there; missing > 0 {
		from := w.takeFar(missing)
		s, err := bench.Timed(int64(missing), func() error {
			return w.schedule(ctx, r, "loading", from, from+missing, w.farRequest)
		})
		if err != nil {
			return err
		}
		r.Report.Add("loaded", missing)
		r.Report.Add("loaded_per_s", s.Rate())
		r.CPU(s, "loaded")
	} else {
		r.Progress.Say("using the store as it is: %d pending timers", there)
	}
	r.MarkMemory()
	return nil
}

// Verify implements [bench.Loader]: it has a new timer published beside those that are
// pending.
func (w *workload) Verify(ctx context.Context, r *bench.Run) error {
	now := w.began
	first := w.book.expect(markFirst, 1, func(int) time.Time { return now })
	if _, err := w.service.Schedule(ctx, w.request(markFirst, 0, now)); err != nil {
		return fmt.Errorf("bench: schedule a first timer: %w", err)
	}
	if err := w.awaitPublished(ctx, r, 0, first); err != nil {
		return err
	}
	r.MarkResult(first.Last())
	there, err := armed(ctx, r)
	if err == nil && there < w.pending {
		err = bench.Lost(there, w.pending, "timers are pending")
	}
	return err
}

// Measure implements [bench.Workload].
func (w *workload) Measure(ctx context.Context, r *bench.Run) error {
	r.Report.Add("tenants", w.tenants)
	r.Report.Add("payload_bytes", w.payload)
	r.Report.Add("bulk", w.bulk)
	if w.pending > 0 {
		if err := w.reportPending(ctx, r); err != nil {
			return err
		}
	}
	if err := r.MeasureIdle(ctx, nil); err != nil {
		return err
	}
	if w.herd > 0 {
		return w.measureHerd(ctx, r)
	}
	if err := w.measureSingle(ctx, r); err != nil {
		return err
	}
	return w.measureSpread(ctx, r)
}

// reportPending reports what the store holds.
func (w *workload) reportPending(ctx context.Context, r *bench.Run) error {
	there, err := armed(ctx, r)
	if err != nil {
		return err
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	r.Report.Add("pending", there)
	if stats.Bytes > 0 && there > 0 {
		r.Report.Add("disk_bytes_per_timer", float64(stats.Bytes)/float64(there))
	}
	return nil
}
