package engine

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/meter"
)

// meters are the engine's instruments. Label sets are made once, since making one costs more than counting.
// What a turn or an attempt did is counted after its commit: what is tried twice is counted once, and what
// comes to nothing is not counted, but for the counters of lost claims and replays, which are about just
// that. After a crash between a commit and its count, the count is missing.
type meters struct {
	set *meter.Set

	started, continued, ended, stalled, expired metric.Int64Counter
	long, refused, rewound                      metric.Int64Counter
	replays, stale, unawaited, lost             metric.Int64Counter
	activitiesEnded, failures                   metric.Int64Counter
	timersSet, timersFired                      metric.Int64Counter
	timersMoved, timersCancelled                metric.Int64Counter
	lateness, turns, activities                 metric.Float64Histogram
	limitWaits                                  metric.Float64Histogram
	operations, operationsWaited                metric.Int64Counter
	batches, lockWaits                          metric.Float64Histogram

	cached, turning, acting, abandoned, limit, waiting         metric.Float64ObservableGauge
	pending, ready, age, quarantineNow, clockLead, clockOffset metric.Float64ObservableGauge

	byStatus   map[Status]label
	byQueue    map[string]label
	byActivity map[string]label
	completed  label
	failed     label
	operated   [2]label // completed, and failed
}

// instrument has the engine measured and traced as its configuration says.
func (e *Engine) instrument() error {
	var err error
	if e.meters, err = newMeters(e.cfg.MeterProvider, e.cfg.Activities); err != nil {
		return fmt.Errorf("abide: %w", err)
	}
	e.tracer = NewTracer(e.cfg.TracerProvider)
	e.unobserve = func() {}
	if e.cfg.Elsewhere == nil {
		gauges, limits := e.observe(), e.observeLimits()
		e.unobserve = func() {
			gauges()
			limits()
		}
	}
	if err := e.meters.set.Err; err != nil {
		return fmt.Errorf("abide: %w", err)
	}
	return nil
}

// label is a label with a value, in the forms in which instruments take it.
type label struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newLabel(m meter.Metric, value string) label {
	set := metric.WithAttributeSet(attribute.NewSet(attribute.String(m.Label, value)))
	return label{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
}

// newMeters returns the instruments of an engine that serves these activities.
func newMeters(p metric.MeterProvider, activities map[string]Activity) (*meters, error) {
	set := meter.New(p)
	m := &meters{
		set:             set,
		started:         set.Counter(meter.InstancesStarted),
		continued:       set.Counter(meter.InstancesContinued),
		ended:           set.Counter(meter.InstancesEnded),
		rewound:         set.Counter(meter.InstancesRewound),
		stalled:         set.Counter(meter.InstancesStalled),
		long:            set.Counter(meter.InstancesLong),
		refused:         set.Counter(meter.CallsRefused),
		limit:           set.Gauge(meter.CallsLimit),
		expired:         set.Counter(meter.InstancesExpired),
		cached:          set.Gauge(meter.InstancesCached),
		lateness:        set.Seconds(meter.InstanceLateness),
		timersSet:       set.Counter(meter.InstanceTimersScheduled),
		timersFired:     set.Counter(meter.InstanceTimersFired),
		timersMoved:     set.Counter(meter.InstanceTimersMoved),
		timersCancelled: set.Counter(meter.InstanceTimersCancelled),
		turns:           set.Seconds(meter.TurnDuration),
		replays:         set.Counter(meter.TurnReplays),
		turning:         set.Gauge(meter.TurnsRunning),
		activities:      set.Seconds(meter.ActivityDuration),
		activitiesEnded: set.Counter(meter.ActivitiesEnded),
		failures:        set.Counter(meter.ActivityFailures),
		limitWaits:      set.Seconds(meter.LimitWait),
		operations:      set.Counter(meter.EntityOperations),
		batches:         set.Seconds(meter.EntityBatch),
		lockWaits:       set.Seconds(meter.EntityLockWait),
		acting:          set.Gauge(meter.ActivitiesRunning),
		abandoned:       set.Gauge(meter.CodeAbandoned),
		stale:           set.Counter(meter.MessagesStale),
		unawaited:       set.Counter(meter.EventsUnawaited),
		lost:            set.Counter(meter.ClaimsLost),
		pending:         set.Gauge(meter.QueuePending),
		ready:           set.Gauge(meter.QueueReady),
		age:             set.Gauge(meter.QueueAge),
		quarantineNow:   set.Gauge(meter.Quarantined),
		clockLead:       set.Gauge(meter.ClockLead),
		clockOffset:     set.Gauge(meter.ClockOffset),

		byStatus: map[Status]label{}, byQueue: map[string]label{}, byActivity: map[string]label{},
		completed: newLabel(meter.ActivitiesEnded, "completed"),
		failed:    newLabel(meter.ActivitiesEnded, "failed"),
		operated:  [2]label{newLabel(meter.EntityOperations, "completed"), newLabel(meter.EntityOperations, "failed")},

		operationsWaited: set.Counter(meter.EntityWaited), waiting: set.Gauge(meter.LimitWaiting),
	}
	for _, status := range Statuses {
		if status.Ended() {
			m.byStatus[status] = newLabel(meter.InstancesEnded, string(status))
		}
	}
	for _, queue := range []string{queueTurns, QueueActivities, queueControl, QueueEntities, queueLimits} {
		m.byQueue[queue] = newLabel(meter.ClaimsLost, queue)
	}
	for name := range activities {
		m.byActivity[name] = newLabel(meter.ActivityDuration, name)
	}
	return m, set.Err
}

// gate records for how long what a gate has admitted waited for it.
func (m *meters) gate(p *gatePlan) {
	for _, wait := range p.waits {
		m.limitWaits.Record(p.ctx, wait.Seconds())
	}
}

// batched counts the operations of a batch that was committed.
func (m *meters) batched(b *entityTurn, p *entityPlan, out *EntityOutcome) {
	if p.waits > 0 {
		m.operationsWaited.Add(b.ctx, p.waits)
	}
	if len(p.run) == 0 {
		return
	}
	m.batches.Record(b.ctx, b.e.clock.Now().Sub(b.began).Seconds())
	var n [len(m.operated)]int64
	for i := range p.run {
		if out.Results[i].Failure == nil {
			n[0]++
		} else {
			n[1]++
		}
	}
	for i := range n {
		if n[i] > 0 {
			m.operations.Add(b.ctx, n[i], m.operated[i].add...)
		}
	}
}

// committed counts what a commit about an instance has made so.
func (m *meters) committed(t *turn) {
	ctx := context.Background()
	if t.starts {
		m.started.Add(ctx, 1)
	}
	if t.next != nil {
		m.continued.Add(ctx, 1)
	}
	if t.ends {
		m.ended.Add(ctx, 1, m.byStatus[t.in.info.Status].add...)
	}
	if t.expires {
		m.expired.Add(ctx, 1)
	}
	for _, f := range t.fired {
		m.lateness.Record(t.ctx, f.late.Seconds())
	}
	for _, wait := range t.lockWaits {
		m.lockWaits.Record(t.ctx, wait.Seconds())
	}
	for _, c := range [...]struct {
		counter metric.Int64Counter
		n       int64
	}{{m.timersSet, t.timersSet}, {m.timersFired, int64(len(t.fired))}, {m.timersMoved, t.timersMoved}, {m.timersCancelled, t.timersCancelled}} {
		if c.n > 0 {
			c.counter.Add(ctx, c.n)
		}
	}
}

// attempted counts an attempt at an activity whose outcome was committed.
func (m *meters) attempted(t *Task, failure *history.Failure, again bool, took time.Duration) {
	labels := m.byActivity[t.Name]
	if t.called {
		m.activities.Record(t.ctx, took.Seconds(), labels.record...)
	}
	switch {
	case failure == nil:
		m.activitiesEnded.Add(t.ctx, 1, m.completed.add...)
		return
	case !again:
		m.activitiesEnded.Add(t.ctx, 1, m.failed.add...)
	}
	m.failures.Add(t.ctx, 1, labels.add...)
}

// lose counts work that lost its claim.
func (e *Engine) lose(queue string) {
	e.count.Lost.Add(1)
	e.meters.lost.Add(context.Background(), 1, e.meters.byQueue[queue].add...)
}

// stale counts messages that were acknowledged without being appended.
func (e *Engine) stale(n int) {
	if n > 0 {
		e.count.Stale.Add(int64(n))
		e.meters.stale.Add(context.Background(), int64(n))
	}
}

// refused counts a start or an event that was refused because the process was behind.
func (e *Engine) refused() {
	e.count.Refused.Add(1)
	e.meters.refused.Add(context.Background(), 1)
}

// rewind counts instances that were rewound by a client of this engine.
func (e *Engine) rewind(n int) { e.meters.rewound.Add(context.Background(), int64(n)) }
