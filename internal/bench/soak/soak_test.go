//go:build unix

package soak

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/internal/testenv"
	_ "github.com/abidehq/abide/store/pgstore" // its URL scheme
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Variables of `make soak`: how long each store is measured, and the folder for charts and
// samples.
const (
	envDuration = "ABIDE_SOAK"
	envFolder   = "ABIDE_SOAK_FOLDER"
)

// TestSoak runs the mix on the embedded store and on PostgreSQL: nothing is lost. It is short
// unless ABIDE_SOAK says otherwise.
func TestSoak(t *testing.T) {
	long := os.Getenv(envDuration)
	for _, store := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"pebble", func(t *testing.T) string { return benchtest.URL(t, "pebble") }},
		{"postgres", func(t *testing.T) string { return testenv.Postgres(t).URL() }},
	} {
		t.Run(store.name, func(t *testing.T) {
			folder, c := t.TempDir(), bench.Config{URL: store.url(t)}
			args := "--duration 15s --probe 2s --every 1s --retention 3s"
			if long != "" {
				c.Progress = bench.NewProgress(os.Stderr, false)
				folder = os.Getenv(envFolder)
				args = "--duration " + long
			}
			csvFile, svgFile := filepath.Join(folder, "soak-"+store.name+".csv"), filepath.Join(folder, "soak-"+store.name+".svg")
			report, err := benchtest.Try(t, Spec(), c, fmt.Sprintf("%s --series %s --svg %s", args, csvFile, svgFile))
			if err != nil {
				t.Fatal(err)
			}
			wellFormed(t, svgFile)
			figures := value(t, report, "samples")
			if rows := readCSV(t, csvFile); len(rows) != int(figures)+1 || figures < 1 {
				t.Errorf("%d lines of samples, want %v and a header", len(rows), figures)
			}
			if long != "" {
				_ = report.WriteTable(os.Stdout)
			} else if value(t, report, "instances_expired") == 0 || value(t, report, "instances_deleted") == 0 {
				t.Error("no instance was deleted, or none has expired")
			}
		})
	}
}

// value returns a figure of a report.
func value(t *testing.T, r *bench.Report, name string) float64 {
	t.Helper()
	v, ok := r.Value(name)
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	t.Fatalf("figure %s is %v (%v)", name, v, ok)
	return 0
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll() // which wants the same number of fields everywhere
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := xml.NewDecoder(f); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// TestShortRunsOnOtherStores: one without a disk has no figures of it.
func TestShortRunsOnOtherStores(t *testing.T) {
	t.Parallel()
	got := benchtest.Run(t, Spec(), bench.Config{URL: "memory://"}, "--duration 600ms --rate 50 --every 100ms --retention 1s")
	benchtest.Keys(t, got, []string{
		"rate_per_s", "duration_s", "retention_s", "samples", "p99_second_ms", "p99_last_ms", "p99_ratio", "p99_verdict",
		"rss_second_mib", "rss_last_mib", "rss_ratio", "rss_verdict",
		"accepted", "refused", "instances", "instances_deleted", "instances_expired", "instances_kept",
	})
	benchtest.Positive(t, got, "accepted", "instances", "instances_kept", "p99_last_ms")
	benchtest.Want(t, got, map[string]any{"rate_per_s": 50.0, "retention_s": 1.0, "duration_s": (600 * time.Millisecond).Seconds()})
}
