package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// measured is what engines measure.
type measured struct {
	*rig
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
}

func newMeasured(r *rig) *measured {
	reader := sdk.NewManualReader()
	return &measured{rig: r, reader: reader, provider: sdk.NewMeterProvider(sdk.WithReader(reader))}
}

func (m *measured) configure(c *Config) { c.MeterProvider = m.provider }

// read returns all values by name and label; those of a histogram are how many, and
// their sum.
func (m *measured) read() map[string]float64 {
	m.Helper()
	var all metricdata.ResourceMetrics
	m.must(m.reader.Collect(m.Context(), &all))
	values := map[string]float64{}
	for _, s := range all.ScopeMetrics {
		for _, is := range s.Metrics {
			name := strings.TrimPrefix(is.Name, "abide.")
			switch data := is.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[name+labelOf(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[name+labelOf(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[name+labelOf(p.Attributes)] = float64(p.Count)
					values[name+labelOf(p.Attributes)+" sum"] = p.Sum
				}
			default:
				m.Errorf("%s is a %T", is.Name, data)
			}
		}
	}
	return values
}

func labelOf(set attribute.Set) string {
	if set.Len() == 0 {
		return ""
	}
	return "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
}

// wantAll checks all values; those that are 0 need not be named.
func (m *measured) wantAll(want map[string]float64) {
	m.Helper()
	got := m.read()
	want["call.limit"] = admission.MaxLimit
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			m.Errorf("%s is %v, want %v", name, got[name], want[name])
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			m.Errorf("%s is not there, want %v", name, want[name])
		}
	}
}

// TestMetricsAreWhatHappened: each of them has its exact value after a known flow.
func TestMetricsAreWhatHappened(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.register()
		m.serve(m.configure)
		m.begin("order-1", "order", "x", func(s *Start) { s.Version = "2" })
		m.pass(5 * time.Second) // the second attempt at charge is under way, and mail
		m.wantAll(map[string]float64{
			"instance.started": 1, "instance.cached": 1, "turn.duration": 1, "activity.running": 2,
			"activity.duration{activity=charge}": 1, "activity.duration{activity=charge} sum": 3, "activity.failures{activity=charge}": 1,
			"queue.pending{queue=turns}": 0, "queue.pending{queue=activities}": 2, "queue.ready{queue=activities}": 2,
			"queue.age{queue=activities}": 5, "turn.duration sum": 0,
		})
		m.until("order-1", Failed)
		m.pass(2 * time.Second)
		m.wantAll(map[string]float64{
			"instance.started": 2, "instance.continued": 1, "instance.ended{status=failed}": 1, "instance.ended{status=completed}": 1,
			"instance.timer.lateness": 1, "instance.timer.scheduled": 1, "instance.timer.fired": 1, "turn.duration": 9,
			"activity.duration{activity=charge}": 2, "activity.duration{activity=charge} sum": 6, "activity.failures{activity=charge}": 1,
			"activity.duration{activity=mail}": 3, "activity.duration{activity=mail} sum": 30,
			"activity.ended{outcome=completed}": 4,
			"queue.pending{queue=turns}":        2, // that will expire
		})
		m.pass(DefaultRetention)
		m.wantAll(map[string]float64{
			"instance.started": 2, "instance.continued": 1, "instance.ended{status=failed}": 1, "instance.ended{status=completed}": 1,
			"instance.timer.lateness": 1, "instance.timer.scheduled": 1, "instance.timer.fired": 1, "instance.expired": 2, "turn.duration": 11,
			"activity.duration{activity=charge}": 2, "activity.duration{activity=charge} sum": 6, "activity.failures{activity=charge}": 1,
			"activity.duration{activity=mail}": 3, "activity.duration{activity=mail} sum": 30,
			"activity.ended{outcome=completed}": 4,
		})
	})
}

// TestMetricsOfTrouble: what is lost, stale, replayed, stalled, late and given up.
func TestMetricsOfTrouble(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		broken := true
		m.flow("wait", waiter)
		m.flow("call", caller)
		m.flow("nap", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			sleep(c, -time.Hour) // due when it is set: it is not an hour late
			return done("")
		})
		m.flow("fragile", func(*replay.Context, []byte) replay.Outcome {
			if broken {
				panic("oh dear")
			}
			return done("")
		})
		m.act("no", func(context.Context, *Task) ([]byte, *history.Failure) { return nil, failure("no") })
		m.serve(m.configure)

		m.begin("late", "nap", "")
		m.begin("waits", "wait", "")
		m.begin("stalls", "fragile", "")
		m.until("stalls", Stalled)
		m.begin("fails", "call", "no")
		m.until("fails", Failed)
		m.must2(m.Raise(m.Context(), Raise{Ref: Ref{ID: "waits"}, Name: "other", Awaited: true}))
		m.must2(m.Raise(m.Context(), Raise{Ref: Ref{ID: "fails"}, Name: "go", Unchecked: true}))
		m.pass(time.Second)
		m.wantAll(map[string]float64{
			"instance.started": 3, "instance.stalled": 1, "instance.cached": 2, "instance.ended{status=failed}": 1, "instance.timer.scheduled": 1,
			"turn.duration": 7, "turn.duration sum": 0, "activity.duration{activity=no}": 1, "activity.duration{activity=no} sum": 0,
			"activity.failures{activity=no}": 1, "activity.ended{outcome=failed}": 1, "event.unawaited": 1, "message.stale": 1,
			"queue.pending{queue=turns}": 4, // a timer, what parks the stalled one and its start, and one that will expire
		})

		m.shut()
		if got := m.read(); got["queue.pending{queue=turns}"] != 0 {
			m.Error("an engine that is closed shows what the store holds")
		}
		m.pass(2 * time.Hour) // the nap is over by an hour
		m.serve(m.configure)
		broken = false
		lose := true
		m.tape.failing(func(tx *store.Tx) error {
			if lose && len(tx.Finish) > 0 && tx.Finish[0].Lease.Key.Queue == queueTurns {
				lose = false
				return store.ErrConflict
			}
			return nil
		})
		m.result("late")
		m.must(m.Resume(m.Context(), Ref{ID: "stalls"}))
		m.result("stalls")
		m.must(m.Terminate(m.Context(), Ref{ID: "waits"}, ""))
		m.pass(time.Minute)
		got := m.read()
		for name, want := range map[string]float64{
			"instance.started": 4, "instance.stalled": 1, "instance.ended{status=completed}": 2, "instance.ended{status=terminated}": 1,
			"claim.lost{queue=turns}": 1, "instance.timer.lateness": 2, "instance.timer.lateness sum": 3601,
		} {
			if got[name] != want {
				m.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		if got["turn.replays"] < 2 { // the nap, once more because of the conflict
			m.Errorf("there are %v replays", got["turn.replays"])
		}
	})
}

// TestMetricsOfForks: a fork is started, and ends.
func TestMetricsOfForks(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.flow("wait", waiter)
		m.serve(m.configure)
		m.begin("a", "wait", "")
		m.pass(time.Second)
		m.must(m.Fork(m.Context(), Ref{ID: "a"}, 2, "b"))
		for _, id := range []string{"a", "b"} {
			m.raise(id, "go", "")
			m.result(id)
		}
		got := m.read()
		want(r, "started", got["instance.started"], 2)
		want(r, "ended", got["instance.ended{status=completed}"], 2)
	})
}

// TestMessagesOfParkedInstancesAreNotReady, however long they wait; those of nobody's
// orchestration are.
func TestMessagesOfParkedInstancesAreNotReady(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.flow("wait", waiter)
		m.serve(m.configure)
		m.begin("a", "wait", "")
		m.pass(time.Second)
		m.must(m.Suspend(m.Context(), Ref{ID: "a"}, ""))
		m.pass(time.Second)
		m.raise("a", "go", "")
		m.pass(time.Hour)
		got := m.read()
		want(r, "pending", got["queue.pending{queue=turns}"], 2)
		want(r, "ready", got["queue.ready{queue=turns}"], 0)
		want(r, "age", got["queue.age{queue=turns}"], 0)
		m.begin("b", "nobody's", "")
		m.pass(time.Minute)
		got = m.read()
		want(r, "ready", got["queue.ready{queue=turns}"], 1)
		want(r, "age", got["queue.age{queue=turns}"], 60)
	})
}

// TestMessagesInQuarantineAreCounted.
func TestMessagesInQuarantineAreCounted(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.serve(m.configure)
		m.must(m.tape.Commit(m.Context(), &store.Tx{Put: []store.Message{
			{Key: store.Key{Queue: queueControl, Name: "a"}, ID: "1", Route: routeControl, Body: []byte("not a message")},
		}}))
		m.pass(2 * time.Second)
		want(r, "in quarantine", m.read()["quarantine.messages"], 1)
	})
}

// clockBehind is a store whose clock was set back, and whose time is ahead of that of the process.
type clockBehind struct{ store.Store }

func (s clockBehind) Stats(ctx context.Context) (store.Stats, error) {
	stats, err := s.Store.Stats(ctx)
	stats.ClockLead, stats.Now = 5*time.Second, stats.Now.Add(90*time.Second)
	return stats, err
}

// TestTheStoresClockIsMeasured against its time, and against that of the process.
func TestTheStoresClockIsMeasured(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.serve(m.configure, func(c *Config) { c.Store = clockBehind{r.tape} })
		got := m.read()
		want(r, "lead", got["store.clock.lead"], 5)
		want(r, "offset", got["store.clock.offset"], 90)
	})
}

// counting counts how often a store is asked what it holds.
type counting struct {
	store.Store
	stats int
	err   error
}

func (s *counting) Stats(ctx context.Context) (store.Stats, error) {
	s.stats++
	if s.err != nil {
		return store.Stats{}, s.err
	}
	return s.Store.Stats(ctx)
}

// TestTheStoreIsAskedOnceASecond, however many look, and only if somebody does. What is
// known without it shows although it does not answer.
func TestTheStoreIsAskedOnceASecond(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		s := &counting{Store: r.tape}
		m.flow("wait", waiter)
		m.serve(m.configure, func(c *Config) { c.Store = s })
		m.begin("a", "wait", "")
		m.pass(time.Hour)
		before := s.stats
		for range 10 {
			m.read()
			m.pass(100 * time.Millisecond)
		}
		want(r, "asked in the first second", s.stats-before, 1)
		m.read()
		want(r, "asked after that", s.stats-before, 2)

		s.err = errors.New("down")
		m.pass(time.Minute)
		var all metricdata.ResourceMetrics
		if err := m.reader.Collect(m.Context(), &all); err == nil || !strings.Contains(err.Error(), "down") {
			r.Errorf("error %v", err)
		}
		if text := fmt.Sprintf("%+v", all); !strings.Contains(text, meter.InstancesCached.Name) || strings.Contains(text, meter.QueuePending.Name) {
			r.Errorf("it shows %s", text)
		}
		s.err = nil
	})
}

// TestEnginesShareTheirMeters: of two in one process the counts add up.
func TestEnginesShareTheirMeters(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.flow("call", caller)
		first := m.serve(m.configure)
		m.act("echo", echo)
		m.serve(m.configure)
		m.begin("a", "call", "echo")
		m.result("a")
		m.must(first.Close(m.Context()))
		got := m.read()
		want(r, "started", got["instance.started"], 1)
		want(r, "activities", got["activity.ended{outcome=completed}"], 1)
	})
}

// noting notes the names of instruments.
type noting struct {
	noop.Meter
	names *[]string
}

type notingProvider struct {
	noop.MeterProvider
	noting noting
}

func (p notingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.noting }

func (n noting) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	*n.names = append(*n.names, name)
	return noop.Int64Counter{}, nil
}

func (n noting) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	*n.names = append(*n.names, name)
	return noop.Float64Histogram{}, nil
}

func (n noting) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	*n.names = append(*n.names, name)
	return noop.Float64ObservableGauge{}, nil
}

// TestEachMetricOfTheEngineHasAnInstrument: those that the document names before the
// timers'.
func TestEachMetricOfTheEngineHasAnInstrument(t *testing.T) {
	t.Parallel()
	var names, want []string
	if _, err := newMeters(notingProvider{noting: noting{names: &names}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range meter.All() {
		if m == meter.TimersScheduled {
			break
		}
		if !strings.HasPrefix(m.Name, "abide.worker.") { // those of a worker over the network
			want = append(want, m.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there are instruments for\n%q, want\n%q", names, want)
	}
}

// TestATurnThatIsUnderWayShows.
func TestATurnThatIsUnderWayShows(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeasured(r)
		m.flow("slow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Step("think", func(context.Context) ([]byte, *history.Failure) {
				<-time.After(time.Minute)
				return nil, nil
			})
			return done("")
		})
		m.serve(m.configure)
		m.begin("a", "slow", "")
		m.pass(time.Second)
		want(r, "turns under way", m.read()["turn.running"], 1)
		m.result("a")
		want(r, "turns under way", m.read()["turn.running"], 0)
		want(r, "time that they took", m.read()["turn.duration sum"], 60)
	})
}

// TestMetricsAndLogOfTimers: what orchestrations do with timers is counted, and each that fires
// is in the log, with its name and how late it was.
func TestMetricsAndLogOfTimers(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		m := newMeasured(r)
		m.flow("timers", func(c *replay.Context, _ []byte) replay.Outcome {
			window := c.Timer("window", c.Now().Add(time.Hour))
			spare := c.Timer("", c.Now().Add(time.Hour))
			sleep(c, time.Minute)
			c.Move(window, c.Now().Add(2*time.Hour))
			c.Cancel(spare)
			c.Wait(window)
			return done("")
		})
		m.serve(m.configure, func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		m.begin("a", "timers", "")
		m.pass(2 * time.Minute)
		m.must(m.MoveTimer(m.Context(), Ref{ID: "a"}, "window", time.Now().Add(time.Hour)))
		m.result("a")
		got := m.read()
		for name, want := range map[string]float64{
			"instance.timer.scheduled": 3, "instance.timer.fired": 2, "instance.timer.moved": 2, "instance.timer.cancelled": 1,
			"instance.timer.lateness": 2,
		} {
			if got[name] != want {
				m.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		if n := strings.Count(log.String(), `level=DEBUG msg="timer fired"`); n != 2 {
			m.Errorf("the log has %d timers, want 2:\n%s", n, log.String())
		}
		for _, words := range []string{"timer=window", "lateness=0s", "due="} {
			if !strings.Contains(log.String(), words) {
				m.Errorf("the log does not say %q:\n%s", words, log.String())
			}
		}
	})
}

// TestLatenessIsNotThatOfParkedInstances: a timer that was due while its instance was suspended or
// stalled is late from the moment at which the instance was resumed, in the process that has the
// instance in memory and in another one.
func TestLatenessIsNotThatOfParkedInstances(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts=%v", restarts), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				m := newMeasured(r)
				broken := true
				m.flow("nap", func(c *replay.Context, _ []byte) replay.Outcome {
					sleep(c, time.Hour)
					return done("")
				})
				m.flow("fragile", func(c *replay.Context, _ []byte) replay.Outcome {
					first, second := c.Timer("first", c.Now().Add(time.Hour)), c.Timer("second", c.Now().Add(90*time.Minute))
					c.Wait(first)
					if broken {
						panic("oh dear")
					}
					c.Wait(second)
					return done("")
				})
				m.serve(m.configure)
				m.begin("suspended", "nap", "")
				m.begin("stalled", "fragile", "")
				m.pass(time.Minute)
				m.must(m.Suspend(m.Context(), Ref{ID: "suspended"}, ""))
				m.pass(5 * time.Hour)
				if restarts {
					m.shut()
					m.serve(m.configure)
				}
				m.must(m.Resume(m.Context(), Ref{ID: "suspended"}))
				m.result("suspended")
				if err := m.Resume(m.Context(), Ref{ID: "stalled"}); !errors.Is(err, ErrStalled) {
					m.Errorf("Resume: %v, want that it stalls once more", err)
				}
				m.until("stalled", Stalled)
				m.pass(5 * time.Hour)
				broken = false
				m.must(m.Resume(m.Context(), Ref{ID: "stalled"}))
				m.result("stalled")
				got := m.read()
				want(r, "timers", got["instance.timer.lateness"], 3)
				want(r, "lateness", got["instance.timer.lateness sum"], 0)
			})
		})
	}
}
