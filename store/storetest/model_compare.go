package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// comparison is one list of operations on a backend and the model.
type comparison struct {
	t        *rapid.T
	ctx      context.Context
	backend  *Backend
	another  func() *Backend // opens an empty one of the same kind
	model    *memstore.Store
	clock    *base.Manual // of the model
	start    time.Time
	oneByOne bool // claims ask for one message of each key
	steps    int  // how many there were

	// What operations are made of.
	claims  []*pairedLease // all that were ever made
	live    []*pairedLease // those that are live, by the model, since the last step
	past    []store.Record // quarantine records that were seen, there or gone
	times   []time.Time    // of records
	bodies  int            // how many bodies were made: each is another
	subject store.Key      // what a plan is mostly about

	// What commits have named so far. Every other one vouches for what it names first.
	named        map[store.Key]bool
	namedRecords map[store.RecordKey]bool
	commits      int

	// What the last step asks to look at, and what it was about.
	glance  glance
	keys    map[store.Key]bool
	records map[store.RecordKey]bool
}

// pairedLease is a lease on both sides. Only the tokens differ.
type pairedLease struct {
	name      string // for people
	key       store.Key
	backend   store.Token
	model     store.Token
	delivered []string
	until     time.Time
}

func (l *pairedLease) onBackend() store.Lease { return store.Lease{Key: l.key, Token: l.backend} }
func (l *pairedLease) onModel() store.Lease   { return store.Lease{Key: l.key, Token: l.model} }

// run does random operations, and looks after each.
func (c *comparison) run() {
	actions := map[string]func(*rapid.T){"": c.look}
	add := func(times int, name string, action func(*rapid.T)) {
		for i := range times { // rapid picks a name, so who has more of them comes more often
			actions[fmt.Sprintf("%s %d", name, i+1)] = action
		}
	}
	add(3, "put", c.put)
	add(2, "claim", c.claim)
	add(2, "commit", c.commit)
	add(2, "turn", c.turn)
	add(1, "advance", c.advance)
	add(1, "redrive", c.redrive)
	add(1, "release", c.release)
	add(1, "renew", c.renew)
	// What is read from files costs much more under the race detector than what is
	// still in memory, so not every store is opened again.
	reopens := rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(c.t, "reopens")
	if c.backend.Reopen != nil && reopens {
		add(1, "reopen", c.reopen)
	}
	moves := rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(c.t, "moves")
	if _, ok := c.backend.Store.(store.Portable); ok && moves {
		add(1, "move", c.move)
	}
	c.t.Repeat(actions)
	c.lookAtAll()
	c.sameExport()
}

// plan is what a step is going to do, and what to look at after it. Rapid prints it,
// with its name, as one line of a failure.
type plan[V any] struct {
	do     V
	text   string
	glance glance
}

// GoString returns the plan for people.
func (p plan[V]) GoString() string { return p.text }

// draw draws a plan. What it is made of is not printed.
func draw[V any](c *comparison, t *rapid.T, name string, f func(t *rapid.T) (V, string)) V {
	p := rapid.Custom(func(t *rapid.T) plan[V] {
		c.subject = c.drawSubject(t)
		do, text := f(t)
		return plan[V]{do, text, c.drawGlance(t)}
	}).Draw(t, name)
	c.steps++
	c.glance, c.keys, c.records = p.glance, map[store.Key]bool{}, map[store.RecordKey]bool{}
	return p.do
}

func (c *comparison) now() time.Time { return c.clock.Now() }

// when returns a time for people: how long after the start it is.
func (c *comparison) when(t time.Time) string {
	if t.IsZero() {
		return "@zero"
	}
	return "@" + t.Sub(c.start).String()
}

// sameError checks that both sides have returned the same kind of error.
func (c *comparison) sameError(what string, got, want error) {
	c.t.Helper()
	if errorKind(got) != errorKind(want) {
		c.t.Fatalf("%s:\n  backend: %s (%v)\n  model:   %s (%v)", what, errorKind(got), got, errorKind(want), want)
	}
}

// errorKind returns what callers can tell about an error.
func errorKind(err error) string {
	if err == nil {
		return "ok"
	}
	for _, kind := range []error{
		store.ErrTooLarge, store.ErrInvalid, store.ErrClaimLost, store.ErrConflict, store.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return err.Error() // the model has no other, so this is a difference
}

// sameLines checks that both sides look the same. Of many differences it shows a few.
func (c *comparison) sameLines(what string, got, want []string) {
	c.t.Helper()
	if slices.Equal(got, want) {
		return
	}
	var text strings.Builder
	shown := 0
	for i := range max(len(got), len(want)) {
		g, w := lineAt(got, i), lineAt(want, i)
		if g == w {
			continue
		}
		if shown++; shown > 5 {
			text.WriteString("\n  …")
			break
		}
		fmt.Fprintf(&text, "\n  backend: %s\n  model:   %s", g, w)
	}
	c.t.Fatalf("%s differs:%s", what, text.String())
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}
