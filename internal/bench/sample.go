package bench

import "time"

// sample is what one or more intervals of measuring gave.
type sample struct {
	count   int64 // of commits, or of orchestrations
	elapsed time.Duration
	cpu     time.Duration
	hasCPU  bool
	bytes   written

	latency Histogram // of Commit, or from the start of an orchestration to its result
	raises  Histogram // of calls that raise an event
	claims  Histogram // of Claim calls that returned something
	misses  int64     // Claim calls that returned nothing although a message was visible
}

// stopwatch measures what the process uses from a moment on.
type stopwatch struct {
	start time.Time
	cpu   time.Duration
	bytes written
}

func startWatch() stopwatch {
	w := stopwatch{bytes: bytesWritten()}
	w.cpu, _ = cpuUsed()
	w.start = time.Now()
	return w
}

// stop writes what was used since the start into s.
func (w stopwatch) stop(s *sample) {
	s.elapsed = time.Since(w.start)
	cpu, ok := cpuUsed()
	s.cpu, s.hasCPU = cpu-w.cpu, ok
	s.bytes = bytesWritten().minus(w.bytes)
}

// add joins another interval to s.
func (s *sample) add(other *sample) {
	s.count += other.count
	s.elapsed += other.elapsed
	s.cpu += other.cpu
	s.hasCPU = s.hasCPU || other.hasCPU
	s.bytes = s.bytes.plus(other.bytes)
	s.latency.Merge(&other.latency)
	s.raises.Merge(&other.raises)
	s.claims.Merge(&other.claims)
	s.misses += other.misses
}

// perSecond returns how many there were in a second.
func (s *sample) perSecond() float64 {
	if s.elapsed <= 0 {
		return 0
	}
	return float64(s.count) / s.elapsed.Seconds()
}

// cpuEach returns how much CPU each took, in microseconds, with all that belongs to it:
// claims, background work, garbage collection.
func (s *sample) cpuEach() float64 {
	if s.count == 0 {
		return 0
	}
	return micros(s.cpu) / float64(s.count)
}

// bytesEach returns how much each wrote, and what counted it. It is less than one if
// nothing was written but progress.
func (s *sample) bytesEach() (n float64, source string) {
	if s.count == 0 {
		return 0, ""
	}
	total, source := s.bytes.best()
	return float64(total) / float64(s.count), source
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
