package target

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/abidehq/abide/action"
)

// TestExcerpt writes texts in parts of any size, and compares with what is kept of the
// whole.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		text := make([]byte, rng.IntN(60))
		for i := range text {
			text[i] = 'a' + byte(rng.IntN(26))
		}
		e := newExcerpt(20)
		for rest := text; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			if k, err := e.Write(rest[:n]); k != n || err != nil {
				t.Fatalf("Write took %d of %d, %v", k, n, err)
			}
			rest = rest[n:]
		}
		want := string(text)
		if len(text) > 20 {
			want = string(text[:10]) + string(text[len(text)-10:])
		}
		var out action.Outcome
		e.fill(&out)
		if out.Output != want || out.Cut != int64(len(text)-len(want)) {
			t.Fatalf("of %q there is %q and %d cut, want %q", text, out.Output, out.Cut, want)
		}
	}
}

func TestExcerptCutsNoCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("é", 10), strings.Repeat("é", 10)}, // all is kept
		{"a" + strings.Repeat("é", 19) + "b", "a" + strings.Repeat("é", 8) + "b"},
		{strings.Repeat("€", 20), strings.Repeat("€", 6)},
		{strings.Repeat("😀", 20), strings.Repeat("😀", 4)},
		{strings.Repeat("\x80", 30), strings.Repeat("\x80", 20)}, // no characters at all
	} {
		e := newExcerpt(20)
		if _, err := e.Write([]byte(c.text)); err != nil {
			t.Fatal(err)
		}
		var out action.Outcome
		e.fill(&out)
		if out.Output != c.want || out.Cut != int64(len(c.text)-len(c.want)) {
			t.Errorf("of %q there is %q and %d cut, want %q", c.text, out.Output, out.Cut, c.want)
		}
	}
}

// TestExcerptMemory: it grows with what is kept, and not at once.
func TestExcerptMemory(t *testing.T) {
	t.Parallel()
	e := newExcerpt(keep)
	part := make([]byte, 32<<10)
	if _, err := e.Write(part); err != nil || cap(e.head)+cap(e.tail) > 2*len(part) {
		t.Errorf("%d bytes take %d, %v", len(part), cap(e.head)+cap(e.tail), err)
	}
	for range 1_000 {
		if _, err := e.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if most := 2 * keep; cap(e.head)+cap(e.tail) > most {
		t.Errorf("%d bytes take %d, want at most %d", e.total, cap(e.head)+cap(e.tail), most)
	}
}
