package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Sample is what happened in two seconds.
type Sample struct {
	// At is when they ended.
	At time.Time

	// How many a second: instances that were started, completed, failed, and were cancelled or
	// terminated, turns, attempts of activities that came to an end, tenant timers and timers
	// of instances that fired, and actions that ended.
	Started, Completed, Failed, Cancelled, Turns, Activities, TimersFired, ActionsEnded float64

	// LatenessP50 and LatenessP99 are how late half of the timers, and all but one in a
	// hundred, fired at most, in seconds; 0 if none fired.
	LatenessP50, LatenessP99 float64

	// QueueAge is how long the oldest message waits that is visible, in seconds, and Ready
	// is the number of those.
	QueueAge float64
	Ready    int
}

// Backlog is the ready messages of a store.
type Backlog struct {
	// Ready is the number of messages that are visible, and Age how long the oldest of
	// them waits.
	Ready int
	Age   time.Duration
}

// BacklogOf returns a function that reads the backlog of a store, for [Config.Store]. Messages of
// suspended and stalled instances, whose routes begin with a dot, wait for an operator and are
// left out.
func BacklogOf(s store.Store) func(context.Context) (Backlog, error) {
	return func(ctx context.Context) (Backlog, error) {
		stats, err := s.Stats(ctx)
		if err != nil {
			return Backlog{}, err
		}
		var b Backlog
		for _, r := range stats.Routes {
			if r.Ready > 0 && !strings.HasPrefix(r.Route, ".") {
				b.Ready += r.Ready
				b.Age = max(b.Age, stats.Now.Sub(r.Oldest))
			}
		}
		return b, nil
	}
}

const (
	// sampleEvery is how far samples are apart, and sampleCount how many there are.
	sampleEvery = 2 * time.Second
	sampleCount = 300

	// A sample reads the store if samples were requested lately; otherwise the store is read
	// at a longer interval, so that the next request finds some.
	lookedFor  = 30 * time.Second
	storeEvery = 30 * time.Second
)

// sampler takes samples.
type sampler struct {
	clock  base.Clock
	store  func(context.Context) (Backlog, error)
	reader *sdk.ManualReader

	// Of who takes samples, alone.
	data    metricdata.ResourceMetrics
	last    time.Time
	asked   time.Time // the store
	backlog Backlog
	trouble bool // the store did not answer

	mu     sync.Mutex
	ring   []Sample
	next   int
	looked time.Time
}

func newSampler(clock base.Clock, store func(context.Context) (Backlog, error)) *sampler {
	delta := func(sdk.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality }
	return &sampler{
		clock: clock, store: store, ring: make([]Sample, 0, sampleCount), last: clock.Now(),
		reader: sdk.NewManualReader(sdk.WithTemporalitySelector(delta), sdk.WithAggregationSelector(withoutGauges)),
	}
}

// withoutGauges drops what is true now: a sample has what has changed.
func withoutGauges(kind sdk.InstrumentKind) sdk.Aggregation {
	if kind == sdk.InstrumentKindObservableGauge || kind == sdk.InstrumentKindGauge {
		return sdk.AggregationDrop{}
	}
	return sdk.DefaultAggregationSelector(kind)
}

// run takes a sample every two seconds until ctx ends.
func (s *sampler) run(ctx context.Context, log *slog.Logger) error {
	s.last = s.clock.Now()
	for {
		if err := base.Sleep(ctx, s.clock, sampleEvery); err != nil {
			return nil //nolint:nilerr // the end of ctx is how it stops
		}
		s.take(ctx, log)
	}
}

// take adds a sample.
func (s *sampler) take(ctx context.Context, log *slog.Logger) {
	now := s.clock.Now()
	elapsed := now.Sub(s.last)
	if elapsed <= 0 {
		return // the machine's clock was set back
	}
	if err := s.reader.Collect(context.WithValue(ctx, samplingKey{}, true), &s.data); err != nil {
		log.Warn("sample not taken", "error", err)
		return
	}
	s.last = now
	sample := measure(&s.data, elapsed.Seconds())
	sample.At = now
	s.askStore(ctx, log, now)
	sample.Ready, sample.QueueAge = s.backlog.Ready, s.backlog.Age.Seconds()

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < cap(s.ring) {
		s.ring = append(s.ring, sample)
		return
	}
	s.ring[s.next] = sample
	s.next = (s.next + 1) % len(s.ring)
}

// askStore learns what waits, if it is time.
func (s *sampler) askStore(ctx context.Context, log *slog.Logger, now time.Time) {
	s.mu.Lock()
	watched := !s.looked.IsZero() && now.Sub(s.looked) < lookedFor
	s.mu.Unlock()
	if s.store == nil || !watched && !s.asked.IsZero() && now.Sub(s.asked) < storeEvery {
		return
	}
	s.asked = now
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	backlog, err := s.store(ctx)
	if err == nil {
		s.backlog, s.trouble = backlog, false
		return
	}
	if !s.trouble && ctx.Err() == nil {
		log.Warn("store statistics unavailable", "error", err)
	}
	s.trouble = true
}

// samples returns what there is, the oldest first.
func (s *sampler) samples() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = s.clock.Now()
	all := make([]Sample, 0, len(s.ring))
	return append(append(all, s.ring[s.next:]...), s.ring[:s.next]...)
}
