package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram counts durations of up to an hour, so that any quantile is known to two
// significant digits. The zero value is empty. It is safe for concurrent use.
type Histogram struct {
	mu  sync.Mutex
	hdr *hdrhistogram.Histogram
	max time.Duration
}

// longest is the longest duration that is told apart from longer ones.
const longest = time.Hour

// Record counts a duration. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(1, int64(longest), 2)
	}
	_ = h.hdr.RecordValue(int64(min(d, longest))) // which is within its bounds
	h.max = max(h.max, d)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hdr == nil {
		return 0
	}
	return h.hdr.TotalCount()
}

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.max
}

// Quantile returns the duration that a fraction q of all do not exceed: 0.5 for the median.
// It is zero if nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hdr == nil {
		return 0
	}
	return min(time.Duration(h.hdr.ValueAtQuantile(100*q)), h.max)
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.hdr == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(1, int64(longest), 2)
	}
	h.hdr.Merge(other.hdr)
	h.max = max(h.max, other.max)
}

// Sample is what was measured in one or more intervals.
type Sample struct {
	Count   int64 // operations that were measured
	Total   int64 // operations, with those of the warm-up
	Refused int64 // operations that were refused, see [Op.Refuse]
	Elapsed time.Duration
	Loaded  time.Duration // of Elapsed, until the last operation began
	CPU     time.Duration
	HasCPU  bool
	Latency Histogram
	Start   Histogram // of what operations say by [Op.Started]
	Late    Histogram // how late operations of an open loop began, for want of workers

	bytes written
}

// Timed measures f, in which count operations are done.
func Timed(count int64, f func() error) (*Sample, error) {
	watch := startWatch()
	err := f()
	s := &Sample{Count: count, Total: count}
	watch.stop(s)
	return s, err
}

// Add joins another interval to s.
func (s *Sample) Add(other *Sample) {
	s.Count += other.Count
	s.Total += other.Total
	s.Refused += other.Refused
	s.Elapsed += other.Elapsed
	s.Loaded += other.Loaded
	s.CPU += other.CPU
	s.HasCPU = s.HasCPU || other.HasCPU
	s.bytes = written{disk: s.bytes.disk + other.bytes.disk, calls: s.bytes.calls + other.bytes.calls}
	s.Latency.Merge(&other.Latency)
	s.Start.Merge(&other.Start)
	s.Late.Merge(&other.Late)
}

// Rate returns how many operations there were in a second.
func (s *Sample) Rate() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Count) / s.Elapsed.Seconds()
}

// CPUEach returns how much CPU each operation took, with all that belongs to it: claims,
// background work, garbage collection.
func (s *Sample) CPUEach() time.Duration { return s.CPU / time.Duration(max(s.Count, 1)) }

// BytesEach returns how much each operation wrote, and what counted it.
func (s *Sample) BytesEach() (n float64, source string) {
	total, source := s.bytes.best()
	return float64(total) / float64(max(s.Count, 1)), source
}

// MeasureIdle waits for the time of [Config.Idle], if it is not zero, and reports the CPU
// that this takes. If wait is nil, it does nothing else.
func (r *Run) MeasureIdle(ctx context.Context, wait func(ctx context.Context, d time.Duration) error) error {
	if r.Idle == 0 {
		return nil
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if wait == nil {
		wait = Pass
	}
	r.Progress.Say("idling for %v", r.Idle)
	s, err := Timed(0, func() error { return wait(ctx, r.Idle) })
	if err != nil {
		return err
	}
	r.Report.Add("idle_s", s.Elapsed)
	if s.HasCPU {
		r.Report.Add("idle_cpu_ms", s.CPU)
		r.Report.Add("idle_cpu_percent", 100*s.CPU.Seconds()/s.Elapsed.Seconds())
	}
	return nil
}

const (
	// A store that was just loaded may have background work left. That is over when it uses
	// less than quietPercent of a core for a moment. It is not waited for longer than
	// maxSettle, nor than patientIdle times the time to idle.
	quietPercent = 2
	maxSettle    = 10 * time.Minute
	patientIdle  = 10
)

// settle waits for background work to end, which is not what an idle process does.
func (r *Run) settle(ctx context.Context) error {
	moment, most := min(time.Second, r.Idle), min(maxSettle, patientIdle*r.Idle)
	for began := time.Now(); time.Since(began) < most; {
		before, known := cpuUsed()
		if !known {
			return nil
		}
		if err := Pass(ctx, moment); err != nil {
			return err
		}
		if after, _ := cpuUsed(); 100*(after-before) < quietPercent*moment {
			return nil
		}
	}
	r.Progress.Say("the store is still busy after %v: the figures of idling include that", most)
	return nil
}

// stopwatch measures what the process uses from a moment on.
type stopwatch struct {
	start time.Time
	cpu   time.Duration
	bytes written
}

func startWatch() *stopwatch {
	w := &stopwatch{bytes: bytesWritten()}
	w.cpu, _ = cpuUsed()
	w.start = time.Now()
	return w
}

// stop writes what was used since the start into s.
func (w *stopwatch) stop(s *Sample) {
	s.Elapsed = time.Since(w.start)
	cpu, ok := cpuUsed()
	s.CPU, s.HasCPU = cpu-w.cpu, ok
	s.bytes = bytesWritten().minus(w.bytes)
}

// Where Linux says what a process uses. Elsewhere these files do not exist, and the figures
// that need them are left out.
const (
	procIO     = "/proc/self/io"
	procStatus = "/proc/self/status"
)

// written is how many bytes the process has written so far: to the disk, and by system
// calls, which counts also what never reaches a disk. A count that is not known is zero.
type written struct {
	disk, calls int64
}

func bytesWritten() written {
	counts := procCounts(procIO)
	return written{disk: counts["write_bytes"], calls: counts["wchar"]}
}

// minus returns what was written since an earlier time.
func (w written) minus(earlier written) written {
	return written{disk: w.disk - earlier.disk, calls: w.calls - earlier.calls}
}

// best returns the count to report and where it comes from. Some file systems do not count
// what reaches the disk; then what was asked for is the next best.
func (w written) best() (n int64, source string) {
	if w.disk > 0 {
		return w.disk, "write_bytes"
	}
	return w.calls, "wchar"
}

const mib = 1 << 20

// memory returns the resident memory of the process, now and at its peak, in MiB. A size
// that is not known is zero.
func memory() (now, peak float64) {
	counts := procCounts(procStatus) // in KiB
	return float64(counts["VmRSS"]<<10) / mib, float64(counts["VmHWM"]<<10) / mib
}

// Memory returns the resident memory of the process in MiB, or zero if it is not known.
func Memory() float64 {
	now, _ := memory()
	return now
}

// procCounts returns the numbers in a file with a name and a number in each line.
func procCounts(path string) map[string]int64 {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	counts := map[string]int64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts
}

// Median returns the middle of at least one number.
func Median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Cost reports what each operation of a sample cost: CPU, growth of the store since it had
// so many bytes (not reported if before is negative), and bytes written.
func (r *Run) Cost(ctx context.Context, s *Sample, operation string, before int64) error {
	r.CPU(s, operation)
	if before >= 0 {
		stats, err := r.Stats(ctx)
		if err != nil {
			return err
		}
		if grown := stats.Bytes - before; grown > 0 {
			r.Report.Add(fmt.Sprintf("disk_bytes_per_%s", operation), float64(grown)/float64(max(s.Count, 1)))
		}
	}
	r.Written(s, "written_bytes_per_"+operation)
	return nil
}

// CPU reports the CPU that each operation took.
func (r *Run) CPU(s *Sample, operation string) {
	if s.HasCPU {
		r.Report.Add("cpu_us_per_"+operation, s.CPUEach())
	}
}

// Written reports what each operation wrote. It is less than a byte if nothing was written
// but progress.
func (r *Run) Written(s *Sample, name string) {
	if n, source := s.BytesEach(); n >= 1 {
		r.Report.Add(name, n)
		r.Report.Add("bytes_counted_by", source)
	}
}
