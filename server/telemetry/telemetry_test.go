package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/meter"
)

// open returns a telemetry whose samples the test takes.
func open(t *testing.T, cfg Config) *Telemetry {
	t.Helper()
	tel, err := New(cfg)
	check.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = tel.Close(ctx)
	})
	return tel
}

// scrape returns what Prometheus sees.
func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// everything measures something with each metric that there is.
func everything(t *testing.T, tel *Telemetry) {
	t.Helper()
	set := meter.New(tel.MeterProvider())
	for _, m := range meter.All() {
		switch m.Kind {
		case meter.KindCounter:
			set.Counter(m).Add(t.Context(), 1)
		case meter.KindHistogram:
			set.Seconds(m).Record(t.Context(), 0.01)
		case meter.KindGauge:
			g := set.Gauge(m)
			set.Observe(func(_ context.Context, o metric.Observer) error {
				o.ObserveFloat64(g, 1)
				return nil
			}, g)
		}
	}
	if set.Err != nil {
		t.Fatal(set.Err)
	}
}

// TestPrometheusShowsTheNamesOfTheDocument: docs/metrics.md is what people build alerts on.
func TestPrometheusShowsTheNamesOfTheDocument(t *testing.T) {
	t.Parallel()
	tel := open(t, Config{Service: "abide-test", Attributes: map[string]string{"deployment.environment.name": "here"}})
	everything(t, tel)
	text := scrape(t, tel)
	document, err := os.ReadFile("../../docs/metrics.md")
	check.OK(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|histogram|gauge) ").FindAllStringSubmatch(string(document), -1)
	if len(rows) == 0 {
		t.Fatal("the document has no rows")
	}
	for _, row := range rows {
		if !strings.Contains(text, "\n# TYPE "+row[1]+" "+row[2]+"\n") && !strings.HasPrefix(text, "# TYPE "+row[1]) {
			t.Errorf("nobody sees %s as a %s", row[1], row[2])
		}
	}
	for _, want := range []string{"go_goroutines ", "process_cpu_seconds_total ", `target_info{deployment_environment_name="here",service_name="abide-test"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not there", want)
		}
	}
}

// TestTwoInOneProcess: each has a registry of its own.
func TestTwoInOneProcess(t *testing.T) {
	t.Parallel()
	one, two := open(t, Config{}), open(t, Config{})
	meter.New(one.MeterProvider()).Counter(meter.TimersFired).Add(t.Context(), 5)
	if strings.Contains(scrape(t, two), "abide_timer_fired_total 5") || !strings.Contains(scrape(t, one), "abide_timer_fired_total 5") {
		t.Error("what one measures is seen at the other")
	}
}

// TestSamplesAreRates, and quantiles by interpolation.
func TestSamplesAreRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tel, err := New(Config{})
		check.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tel.Run(ctx) }()
		synctest.Wait()
		set := meter.New(tel.MeterProvider())
		labelled := func(m meter.Metric, value string, n int64) {
			set.Counter(m).Add(ctx, n, metric.WithAttributes(attribute.String(m.Label, value)))
		}
		set.Counter(meter.InstancesStarted).Add(ctx, 20)
		labelled(meter.InstancesEnded, "completed", 10)
		labelled(meter.InstancesEnded, "failed", 4)
		labelled(meter.InstancesEnded, "terminated", 2)
		labelled(meter.ActionsEnded, "completed", 6)
		labelled(meter.ActionsEnded, "pending", 100)
		set.Counter(meter.TimersFired).Add(ctx, 98)
		for range 98 {
			set.Seconds(meter.TimerLateness).Record(ctx, 0.004) // 0.002 to 0.005
		}
		for range 2 {
			set.Seconds(meter.InstanceLateness).Record(ctx, 7) // 5 to 10
		}
		set.Seconds(meter.TurnDuration).Record(ctx, 0.1)
		set.Seconds(meter.ActivityDuration).Record(ctx, 0.1)
		synctest.Wait()
		<-time.After(sampleEvery + time.Millisecond) // virtual
		synctest.Wait()
		got := tel.Samples()
		if len(got) != 1 {
			t.Fatalf("there are %d samples after two seconds", len(got))
		}
		want := Sample{
			At: got[0].At, Started: 10, Completed: 5, Failed: 2, Cancelled: 1, Turns: 0.5, Activities: 0.5, TimersFired: 50, ActionsEnded: 3,
			LatenessP50: 0.002 + 0.003*50/98, LatenessP99: 7.5,
		}
		if got[0] != want {
			t.Errorf("the sample is\n%+v, want\n%+v", got[0], want)
		}
		<-time.After(sampleEvery) // virtual
		synctest.Wait()
		got = tel.Samples()
		if quiet := (Sample{At: got[1].At}); got[1] != quiet || got[1].At.Sub(got[0].At) != sampleEvery {
			t.Errorf("what was counted once is counted again: %+v", got[1])
		}
		<-time.After(time.Hour) // virtual
		synctest.Wait()
		if got = tel.Samples(); len(got) != sampleCount || got[0].At.Sub(got[sampleCount-1].At) != -(sampleCount-1)*sampleEvery {
			t.Errorf("after an hour there are %d samples, %v to %v", len(got), got[0].At, got[len(got)-1].At)
		}
		if !slices.IsSortedFunc(got, func(a, b Sample) int { return a.At.Compare(b.At) }) {
			t.Error("samples are not in order")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestTheStoreIsAskedSeldom: often while samples are requested, seldom otherwise, and never
// by the gauges of others.
func TestTheStoreIsAskedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked, observed atomic.Int32
		fails := errors.New("no answer")
		var answer atomic.Pointer[error]
		tel, err := New(Config{Store: func(context.Context) (Backlog, error) {
			asked.Add(1)
			if e := answer.Load(); e != nil {
				return Backlog{}, *e
			}
			return Backlog{Ready: int(asked.Load()), Age: 3 * time.Second}, nil
		}})
		check.OK(t, err)
		set := meter.New(tel.MeterProvider())
		g := set.Gauge(meter.TimersArmed)
		set.Observe(func(context.Context, metric.Observer) error { observed.Add(1); return nil }, g)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tel.Run(ctx) }()

		<-time.After(time.Minute + time.Millisecond) // virtual
		synctest.Wait()
		if n := asked.Load(); n < 2 || n > 3 {
			t.Errorf("nobody looks, and the store was asked %d times in a minute", n)
		}
		if got := tel.Samples(); got[len(got)-1].Ready == 0 || got[len(got)-1].QueueAge != 3 {
			t.Errorf("the sample has %+v", got[len(got)-1])
		}
		asked.Store(0)
		<-time.After(20 * time.Second) // virtual
		synctest.Wait()
		check.Equal(t, "how often the store was asked in 20 s", asked.Load(), 10)
		answer.Store(&fails)
		<-time.After(10 * time.Second) // virtual
		synctest.Wait()
		if got := tel.Samples(); got[len(got)-1].QueueAge != 3 {
			t.Error("a store that does not answer takes back what it said")
		}
		check.Equal(t, "how often gauges were observed", observed.Load(), 0)
		if scrape(t, tel); observed.Load() == 0 {
			t.Error("gauges are not observed for Prometheus")
		}
		cancel()
		<-done
	})
}

// collector is where metrics and traces are sent to.
type collector struct {
	*httptest.Server
	got chan string
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: make(chan string, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > 0 {
			c.got <- r.URL.Path + " " + r.Header.Get("Authorization")
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// TestOTLP: metrics and traces go to the collector, with its headers, at the latest when
// the process ends.
func TestOTLP(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		otlp OTLP
		want []string
	}{
		{"all", OTLP{Ratio: 1}, []string{"/v1/metrics hush", "/v1/traces hush"}},
		{"traces", OTLP{Ratio: 1, Interval: -1}, []string{"/v1/traces hush"}},
		{"metrics", OTLP{}, []string{"/v1/metrics hush"}},
		{"none are kept", OTLP{Ratio: 1e-18, Interval: -1}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			tt.otlp.Endpoint, tt.otlp.Headers = c.URL+"/", map[string]string{"Authorization": "hush"}
			tel, err := New(Config{OTLP: tt.otlp})
			check.OK(t, err)
			meter.New(tel.MeterProvider()).Counter(meter.TimersFired).Add(t.Context(), 1)
			_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "turn")
			span.End()
			check.OK(t, tel.Close(t.Context()))
			close(c.got)
			var got []string
			for line := range c.got {
				got = append(got, line)
			}
			slices.Sort(got)
			check.Equal(t, "the collector got", got, tt.want)
		})
	}
}

// TestNobodyIsSentAnything who was not named.
func TestNobodyIsSentAnything(t *testing.T) {
	t.Parallel()
	tel := open(t, Config{})
	_, span := tel.TracerProvider().Tracer("test").Start(t.Context(), "turn")
	if span.IsRecording() || span.SpanContext().IsValid() {
		t.Error("a trace is made that nobody sees")
	}
}

// TestMistakesOfOTLP.
func TestMistakesOfOTLP(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]OTLP{
		"scheme": {Endpoint: "127.0.0.1:4318"},
		"query":  {Endpoint: "http://127.0.0.1:4318?x=1"},
		"much":   {Endpoint: "http://127.0.0.1:4318", Ratio: 1.5},
		"little": {Endpoint: "http://127.0.0.1:4318", Ratio: -1},
	} {
		if _, err := New(Config{OTLP: o}); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}
