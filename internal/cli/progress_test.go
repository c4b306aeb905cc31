package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// Where there is no terminal, there is a line now and then, and none that says nothing new.
func TestProgressInLines(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.Unix(1_800_000_000, 0))
	var out bytes.Buffer
	p := newProgress(&out, "cancel", -1)
	p.clock, p.next = clock, clock.Now().Add(lineEvery)
	p.set(1, -1)
	clock.Advance(lineEvery)
	p.set(2, -1)
	p.set(3, 10)
	clock.Advance(lineEvery)
	p.set(4, 10)
	clock.Advance(lineEvery)
	p.set(4, 10)
	p.end()
	if want := "cancel: 2\ncancel: 4 of 10\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
