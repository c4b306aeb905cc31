package soak

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/bench"
)

// windows is how many parts a run has, which are compared with each other.
const windows = 6

// Bounds of the verdicts: how much more the last window may have than the second.
const (
	p99Bound  = 1.3
	flatBound = 1.1
)

// series is the samples of a run.
type series struct {
	store               string
	rate                int
	duration, retention time.Duration
	retained            time.Duration // after which everything that ends is removed as fast as it is added
	points              []point
	windows             []time.Duration // p99 of orchestrations
}

// verdict compares the last window with the second.
type verdict struct {
	second, last, ratio, bound float64
}

func (v verdict) String() string {
	word := "ok"
	if v.ratio > v.bound {
		word = "missed"
	}
	return fmt.Sprintf("%s, at most %g", word, v.bound)
}

// newVerdict returns a verdict, or nil if there is nothing to compare with.
func newVerdict(second, last, bound float64) *verdict {
	if second <= 0 || last <= 0 {
		return nil
	}
	return &verdict{second, last, last / second, bound}
}

// p99 is the verdict about the latency of orchestrations, in milliseconds.
func (s *series) p99() *verdict {
	if len(s.windows) < windows {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return newVerdict(ms(s.windows[1]), ms(s.windows[windows-1]), p99Bound)
}

// memory is the verdict about the resident memory, in bytes.
func (s *series) memory() *verdict {
	of := func(p point) float64 { return p.rss }
	return newVerdict(s.mean(1, of), s.mean(windows-1, of), flatBound)
}

// disk is the verdict about the size of the store, in bytes. There is none if retention had
// not begun in the second window.
func (s *series) disk() *verdict {
	if s.duration/windows < s.retained {
		return nil
	}
	of := func(p point) float64 { return p.disk }
	return newVerdict(s.mean(1, of), s.mean(windows-1, of), flatBound)
}

// mean returns the mean of a value in a window.
func (s *series) mean(window int, of func(point) float64) float64 {
	from, to := s.window(window)
	sum, n := 0.0, 0
	for _, p := range s.points {
		if p.at > from && p.at <= to+time.Second { // the last sample is a moment late
			sum, n = sum+of(p), n+1
		}
	}
	return sum / float64(max(n, 1))
}

// window returns when a window begins and ends.
func (s *series) window(i int) (from, to time.Duration) {
	return time.Duration(i) * s.duration / windows, time.Duration(i+1) * s.duration / windows
}

// report adds the figures of the whole run and the verdicts.
func (s *series) report(r *bench.Report) {
	r.Add("duration_s", s.duration)
	r.Add("retention_s", s.retention)
	r.Add("samples", len(s.points))
	for _, v := range []struct {
		name, unit string
		scale      float64
		verdict    *verdict
	}{
		{"p99", "ms", 1, s.p99()},
		{"rss", "mib", 1 << 20, s.memory()},
		{"disk", "mib", 1 << 20, s.disk()},
	} {
		if v.verdict == nil {
			continue
		}
		r.Add(v.name+"_second_"+v.unit, v.verdict.second/v.scale)
		r.Add(v.name+"_last_"+v.unit, v.verdict.last/v.scale)
		r.Add(v.name+"_ratio", v.verdict.ratio)
		r.Add(v.name+"_verdict", v.verdict.String())
	}
}

// writeFiles writes the samples and the chart, if that is asked for.
func (w *workload) writeFiles(s *series) error {
	for path, write := range map[string]func(io.Writer) error{w.csvFile: s.writeCSV, w.svgFile: s.writeSVG} {
		if path == "" {
			continue
		}
		if err := writeFile(path, write); err != nil {
			return fmt.Errorf("bench: write %s: %w", path, err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error is the one to report
		return err
	}
	return f.Close()
}

// writeCSV writes a line for each sample. What stores report of themselves comes last, by
// name.
func (s *series) writeCSV(w io.Writer) error {
	names := map[string]bool{}
	for _, p := range s.points {
		for name := range p.internals {
			names[name] = true
		}
	}
	own := slices.Sorted(maps.Keys(names))
	header := []string{"at_s", "operations_per_s", "latency_p50_ms", "latency_p99_ms", "timer_lateness_p99_ms", "action_lateness_p99_ms", "rss_bytes", "heap_bytes", "disk_bytes"}
	out := csv.NewWriter(w)
	_ = out.Write(append(header, own...)) // Error has it
	for _, p := range s.points {
		row := []string{decimal(p.at.Seconds()), decimal(p.operations)}
		for _, d := range []time.Duration{p.p50, p.p99, p.timersLate, p.actionsLate} {
			row = append(row, strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64))
		}
		for _, n := range []float64{p.rss, p.heap, p.disk} {
			row = append(row, strconv.FormatFloat(n, 'f', 0, 64))
		}
		for _, name := range own {
			row = append(row, strconv.FormatInt(p.internals[name], 10))
		}
		_ = out.Write(row) // Error has it
	}
	out.Flush()
	return out.Error()
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }
