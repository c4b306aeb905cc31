package worker

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/internal/workerpb"
)

// Meters count what a worker was sent and did, in all of its sessions.
type Meters struct {
	// Count has those of the counters of an engine that a worker knows.
	Count engine.Counters

	set                         *meter.Set
	turns, activities, connects metric.Int64Counter
	byCode                      map[string]metric.MeasurementOption
	running, acting, cached     metric.Float64ObservableGauge
	slots, connected            metric.Float64ObservableGauge
}

// How the code of a turn was found, in the label of a metric.
const (
	codeNew      = "new"
	codeCached   = "cached"
	codeReplayed = "replayed"
)

// NewMeters returns the instruments of a worker. Nil means the global provider of OpenTelemetry.
func NewMeters(p metric.MeterProvider) (*Meters, error) {
	s := meter.New(p)
	m := &Meters{
		set: s, turns: s.Counter(meter.WorkerTurns), activities: s.Counter(meter.WorkerActivities), connects: s.Counter(meter.WorkerSessions),
		running: s.Gauge(meter.TurnsRunning), acting: s.Gauge(meter.ActivitiesRunning), cached: s.Gauge(meter.InstancesCached),
		slots: s.Gauge(meter.WorkerSlots), connected: s.Gauge(meter.WorkerConnected), byCode: map[string]metric.MeasurementOption{},
	}
	for _, code := range []string{codeNew, codeCached, codeReplayed} {
		m.byCode[code] = metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.WorkerTurns.Label, code)))
	}
	if s.Err != nil {
		return nil, fmt.Errorf("worker: %w", s.Err)
	}
	return m, nil
}

// Load is what a worker has under way and in memory.
type Load struct{ Turns, Activities, Cached int }

// Observe has the gauges show what load returns, and the slots of the worker. Stop ends that.
func (m *Meters) Observe(turnSlots, activitySlots int, load func() (now Load, connected bool)) (stop func()) {
	slot := func(kind string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.WorkerSlots.Label, kind)))
	}
	turn, activity := slot("turn"), slot("activity")
	return m.set.Observe(func(_ context.Context, o metric.Observer) error {
		now, connected := load()
		o.ObserveFloat64(m.running, float64(now.Turns))
		o.ObserveFloat64(m.acting, float64(now.Activities))
		o.ObserveFloat64(m.cached, float64(now.Cached))
		o.ObserveFloat64(m.slots, float64(turnSlots), turn)
		o.ObserveFloat64(m.slots, float64(activitySlots), activity)
		is := 0.0
		if connected {
			is = 1
		}
		o.ObserveFloat64(m.connected, is)
		return nil
	}, m.running, m.acting, m.cached, m.slots, m.connected)
}

// Connected counts a session that was opened. Nil meters count nothing.
func (m *Meters) Connected() {
	if m != nil {
		m.connects.Add(context.Background(), 1)
	}
}

// sent counts a turn that the server has sent, by how its code was found.
func (m *Meters) sent(t *turn) {
	if m == nil {
		return
	}
	t.x.opened = t.x.opened || t.m.GetOpen() != nil
	if t.m.GetReplay() {
		t.x.replayed = t.x.replayed || len(t.m.GetEvents()) > 0
		return
	}
	code := codeCached
	switch {
	case t.x.replayed || len(t.m.GetExpected()) > 0:
		code = codeReplayed
		m.Count.Replays.Add(1)
	case t.x.opened:
		code = codeNew
		m.Count.Started.Add(1)
	}
	t.x.opened, t.x.replayed = false, false
	m.turns.Add(context.Background(), 1, m.byCode[code])
}

// turned counts what the code of a turn has come to.
func (m *Meters) turned(t *turn, r *workerpb.TurnResult) {
	if m == nil || t.m.GetReplay() || r.GetError() != nil {
		return
	}
	m.Count.Turns.Add(1)
	if r.GetEnded() {
		m.Count.Ended.Add(1)
	}
}

// begun counts an attempt that the server has sent.
func (m *Meters) begun() {
	if m != nil {
		m.activities.Add(context.Background(), 1)
	}
}

// acted counts what an attempt has come to.
func (m *Meters) acted(r *workerpb.ActivityResult) {
	switch {
	case m == nil, r.GetOutdated() != "":
	case len(r.GetFailure()) > 0:
		m.Count.ActivityFails.Add(1)
	default:
		m.Count.ActivitiesDone.Add(1)
	}
}

// Load returns what the session has under way and in memory.
func (s *Session) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Turns: len(s.turns), Activities: len(s.activities), Cached: max(len(s.executions)-len(s.turns), 0)}
}
