package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func sampleReport() *Report {
	r := &Report{}
	r.text(figStore, "memory")
	r.count(figCommits, 1234567)
	r.number(figThroughput, 51234.56)
	r.number(figLatencyP99, 1234.56789)
	r.numbers(figCPURounds, []float64{1.23456, 1.5})
	r.number(figRSS, math.Inf(1))
	return r
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"store":"memory","commits":1234567,"commits_per_s":51235,"latency_p99_ms":1234.568,"cpu_ratio_rounds":[1.235,1.5],"rss_mib":0}`
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
		"store                           memory",
		"commits                      1,234,567",
		"commits                         51,235 /s",
		"commit latency p99           1,234.568 ms",
		"CPU, store to raw, rounds  1.235 1.500",
		"resident memory                    0.0 MiB",
		"",
	}, "\n")
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestMedianAndShare(t *testing.T) {
	t.Parallel()
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("the median of 3, 1, 2 is %v", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("the median of 4, 1, 2, 3 is %v", got)
	}
	var sum int64
	for round := range 3 {
		sum += share(100, round, 3)
	}
	if sum != 100 {
		t.Errorf("three shares of 100 are %d", sum)
	}
	if share(0, 1, 3) != 0 {
		t.Error("a share of no limit is a limit")
	}
}
