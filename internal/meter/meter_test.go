package meter

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// row returns the line of docs/metrics.md about a metric, by the name that Prometheus
// shows.
func row(m Metric) string {
	name, label := strings.ReplaceAll(m.Name, ".", "_"), ""
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == KindCounter {
		name += "_total"
	}
	if m.Label != "" {
		label = "`" + m.Label + "`"
	}
	return fmt.Sprintf("| %#q | %s | %s | %s |", name, m.Kind, label, m.Help)
}

// TestTheDocumentHasARowForEachMetric, in the same order, and no other.
func TestTheDocumentHasARowForEachMetric(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, m := range All() {
		want = append(want, row(m))
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("docs/metrics.md lacks\n%s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("docs/metrics.md has a row of no metric:\n%s", line)
		}
	}
	if !t.Failed() && !slices.Equal(got, want) {
		t.Error("docs/metrics.md has another order")
	}
}

// TestAllHasEachMetric that names.go makes.
func TestAllHasEachMetric(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, d := range file.Decls {
		if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.VAR {
			made += len(decl.Specs)
		}
	}
	if made == 0 || made != len(All()) {
		t.Errorf("names.go makes %d metrics, All returns %d", made, len(All()))
	}
}

// TestMetricsKeepTheRules that Prometheus users expect: base units, and one way to name
// things.
func TestMetricsKeepTheRules(t *testing.T) {
	t.Parallel()
	good := regexp.MustCompile(`^abide(\.[a-z]+)+$`)
	seen := map[string]bool{}
	for _, m := range All() {
		switch {
		case !good.MatchString(m.Name):
			t.Errorf("%s is no name of a metric", m.Name)
		case seen[m.Name]:
			t.Errorf("two metrics are %s", m.Name)
		case m.Unit != "" && m.Unit != "s" && m.Unit != "By":
			t.Errorf("%s is in %s, which is no base unit", m.Name, m.Unit)
		case m.Kind == KindHistogram && m.Unit != "s":
			t.Errorf("%s is a histogram of something else than seconds", m.Name)
		case !strings.HasSuffix(m.Help, "."), strings.Contains(m.Help, "|"):
			t.Errorf("%s: %q is no sentence of a table", m.Name, m.Help)
		}
		seen[m.Name] = true
	}
	if !slices.IsSorted(Seconds) {
		t.Error("the bounds of the buckets are not in order")
	}
}

func TestInstrumentsMeasure(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	set := New(sdk.NewMeterProvider(sdk.WithReader(reader)))
	count, lateness, armed := set.Counter(TimersFired), set.Seconds(TimerLateness), set.Gauge(TimersArmed)
	stop := set.Observe(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(armed, 7)
		return nil
	}, armed)
	if set.Err != nil {
		t.Fatal(set.Err)
	}
	count.Add(t.Context(), 2, metric.WithAttributes(attribute.String("sink", "a")))
	lateness.Record(t.Context(), 0.003)

	got := collect(t, reader)
	if sum, ok := got["abide.timer.fired"].Data.(metricdata.Sum[int64]); !ok || sum.DataPoints[0].Value != 2 || !sum.IsMonotonic {
		t.Errorf("the counter shows %+v", got["abide.timer.fired"].Data)
	}
	h, ok := got["abide.timer.lateness"].Data.(metricdata.Histogram[float64])
	if !ok || h.DataPoints[0].Sum != 0.003 || !slices.Equal(h.DataPoints[0].Bounds, Seconds) {
		t.Errorf("the histogram shows %+v", got["abide.timer.lateness"].Data)
	}
	if got["abide.timer.lateness"].Unit != "s" || got["abide.timer.lateness"].Description != TimerLateness.Help {
		t.Errorf("the histogram is described by %+v", got["abide.timer.lateness"])
	}
	if g, ok := got["abide.timer.armed"].Data.(metricdata.Gauge[float64]); !ok || g.DataPoints[0].Value != 7 {
		t.Errorf("the gauge shows %+v", got["abide.timer.armed"].Data)
	}
	stop()
	if _, there := collect(t, reader)["abide.timer.armed"]; there {
		t.Error("a gauge is looked at after it was stopped")
	}
}

func collect(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// TestTheFirstErrorOfASetStays, and the instruments do nothing.
func TestTheFirstErrorOfASetStays(t *testing.T) {
	t.Parallel()
	set := New(sdk.NewMeterProvider())
	set.Counter(Metric{Name: "1st"}).Add(t.Context(), 1)
	set.Counter(Metric{Name: "2nd"}).Add(t.Context(), 1)
	if set.Err == nil || !strings.HasPrefix(set.Err.Error(), "meter: 1st: ") {
		t.Errorf("the error of the set is %v", set.Err)
	}
}

// TestACallbackThatIsNotTakenIsAnError, and stopping it is fine.
func TestACallbackThatIsNotTakenIsAnError(t *testing.T) {
	t.Parallel()
	set := New(sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader())))
	foreign := struct{ metric.Float64ObservableGauge }{}
	set.Observe(func(context.Context, metric.Observer) error { return errors.New("never") }, foreign)()
	if set.Err == nil {
		t.Error("there is no error")
	}
}

// TestTheGlobalProviderIsTheDefault.
func TestTheGlobalProviderIsTheDefault(t *testing.T) {
	t.Parallel()
	set := New(nil)
	set.Counter(TimersFired).Add(t.Context(), 1)
	if set.Err != nil {
		t.Error(set.Err)
	}
}
