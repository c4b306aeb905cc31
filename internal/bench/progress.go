package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress tells a person how it goes. A nil Progress is silent. On a terminal a line
// is overwritten every second; elsewhere, say in a log file, a new line is written now
// and then.
type Progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	shown int // the length of the line that is to be overwritten
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer, terminal bool) *Progress {
	return &Progress{w: w, terminal: terminal}
}

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Watch shows how a count grows, until stop is called. What is counted is named by
// unit; total is how far it goes, or zero if that is not known.
func (p *Progress) Watch(what, unit string, total int64, count func() int64) (stop func()) {
	if p == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { p.watch(done, what, unit, total, count) })
	return func() {
		close(done)
		wg.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clear()
	}
}

func (p *Progress) watch(done <-chan struct{}, what, unit string, total int64, count func() int64) {
	every := 5 * time.Second
	if p.terminal {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	start := time.Now()
	last, lastAt := count(), start
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			n := count()
			rate := float64(n-last) / now.Sub(lastAt).Seconds()
			last, lastAt = n, now
			p.show(progressLine(what, unit, now.Sub(start), n, total, rate))
		}
	}
}

// progressLine says how far a count is after some time, and how fast it grows now.
func progressLine(what, unit string, elapsed time.Duration, n, total int64, rate float64) string {
	of := ""
	if total > 0 {
		of = " of " + grouped(total)
	}
	return fmt.Sprintf("%s: %v, %s%s %s, %s/s", what, elapsed.Round(time.Second), grouped(n), of, unit, grouped(int64(rate)))
}

func (p *Progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.shown-len(line))))
	p.shown = len(line)
}

// clear removes a line that would otherwise be left half overwritten.
func (p *Progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.shown))
		p.shown = 0
	}
}

// grouped returns n for people: 1,234,567.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}
