package bench

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{
			"terminal", true,
			"\rcommitting: 1s, 1,000 of 9,000 commits, 1,000/s" +
				"\rcommitting: 2s, 2,000 of 9,000 commits, 1,000/s" +
				"\r" + strings.Repeat(" ", 47) + "\r",
		},
		{
			"log file", false,
			"committing: 5s, 5,000 of 9,000 commits, 1,000/s\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				start := time.Now()
				count := func() int64 { return time.Since(start).Milliseconds() }
				stop := NewProgress(&b, tt.terminal).Watch("committing", "commits", 9000, count)
				seconds := 9
				if tt.terminal {
					seconds = 2
				}
				<-time.After(time.Duration(seconds)*time.Second + time.Millisecond)
				synctest.Wait()
				stop()
				if b.String() != tt.want {
					t.Errorf("got  %q\nwant %q", b.String(), tt.want)
				}
			})
		})
	}
}

func TestProgressSayRemovesTheLine(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := NewProgress(&b, true)
	p.show("a long line")
	p.show("short")
	p.Say("done with %d", 7)
	want := "\ra long line\rshort      \r     \rdone with 7\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

func TestNoProgressIsSilent(t *testing.T) {
	t.Parallel()
	var p *Progress
	p.Say("nobody hears this")
	p.Watch("nothing", "things", 0, func() int64 { return 0 })()
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}
