package console

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
	p := NewProgress(&out, "cancel", -1)
	p.clock, p.next = clock, clock.Now().Add(lineEvery)
	p.Set(1, -1)
	clock.Advance(lineEvery)
	p.Set(2, -1)
	p.Set(3, 10)
	clock.Advance(lineEvery)
	p.Set(4, 10)
	clock.Advance(lineEvery)
	p.Set(4, 10)
	p.End()
	if want := "cancel: 2\ncancel: 4 of 10\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
