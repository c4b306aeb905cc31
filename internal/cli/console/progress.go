package console

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/abidehq/abide/internal/base"
)

// Progress says how far something has come that takes its time: a bar on a terminal, and a
// line now and then elsewhere.
type Progress struct {
	w     io.Writer
	what  string
	bar   *progressbar.ProgressBar
	clock base.Clock
	next  time.Time // when the next line is due
	last  string
}

// lineEvery is how often there is a line.
const lineEvery = 5 * time.Second

// NewProgress returns the progress of something. Total is how much there is to do, or
// negative if unknown.
func NewProgress(w io.Writer, what string, total int) *Progress {
	p := &Progress{w: w, what: what, clock: base.System{}}
	p.next = p.clock.Now().Add(lineEvery)
	if IsTerminal(w) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetRenderBlankState(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(total > 0),
		)
	}
	return p
}

// Set says how much is done, of how much; of is negative if unknown.
func (p *Progress) Set(done, of int) {
	if p.bar != nil {
		if of > 0 && p.bar.GetMax() != of {
			p.bar.ChangeMax(max(of, done))
		}
		_ = p.bar.Set(done) // a terminal that is gone needs no bar
		return
	}
	if now := p.clock.Now(); !now.Before(p.next) {
		p.next = now.Add(lineEvery)
		p.line(done, of)
	}
}

// End removes the bar, so that what follows stands by itself.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

func (p *Progress) line(done, of int) {
	text := fmt.Sprintf("%s: %d", p.what, done)
	if of > 0 {
		text += fmt.Sprintf(" of %d", of)
	}
	if text != p.last {
		fmt.Fprintln(p.w, text)
		p.last = text
	}
}
