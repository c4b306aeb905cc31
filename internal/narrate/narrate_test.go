package narrate_test

import (
	"testing"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/narrate"
)

// TestEveryKindIsDescribed: a kind without words of its own is described by its name, which
// only kinds of a later version may be.
func TestEveryKindIsDescribed(t *testing.T) {
	t.Parallel()
	for k := history.Kind(1); k.Known(); k++ {
		e := history.Event{ID: 7, Kind: k, Name: "x"}
		if l := narrate.Events([]history.Event{e})[0]; l.Text == "" || l.Text == e.String() {
			t.Errorf("%v is described as %q", k, l.Text)
		}
	}
}
