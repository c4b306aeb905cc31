package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func sampleReport() *Report {
	r := &Report{}
	r.Add("store", "memory")
	r.Add("commits", 1234567)
	r.Add("commits_per_s", 51234.56)
	r.Add("latency_p99_ms", 1234567890*time.Nanosecond)
	r.Add("cpu_ratio_rounds", []float64{1.23456, 1.5})
	r.Add("cpu_us_per_commit", 1500*time.Nanosecond)
	r.Add("rss_mib", math.Inf(1))
	return r
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"store":"memory","commits":1234567,"commits_per_s":51234.6,"latency_p99_ms":1234.568,"cpu_ratio_rounds":[1.235,1.5],"cpu_us_per_commit":1.5,"rss_mib":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReportTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := sampleReport().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"store                  memory",
		"commits             1,234,567",
		"commits              51,234.6 /s",
		"latency p99         1,234.568 ms",
		"cpu ratio rounds  1.235 1.500",
		"cpu per commit           1.50 µs",
		"rss                       0.0 MiB",
		"",
	}, "\n")
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("the median of 3, 1, 2 is %v", got)
	}
	if got := Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("the median of 4, 1, 2, 3 is %v", got)
	}
}
