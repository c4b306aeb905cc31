package storetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// sameExport checks that the backend finds nothing wrong with itself, and that what it
// exports is what the model holds, with all fields and in the order in which it was put:
// a memstore that imports it exports the same as the model.
func (c *comparison) sameExport() {
	c.t.Helper()
	from, ok := c.backend.Store.(store.Portable)
	if !ok {
		return
	}
	if err := from.Verify(c.ctx, func(problem string) { c.t.Errorf("verify: %s", problem) }); err != nil {
		c.t.Fatalf("verify: %v", err)
	}
	to := memstore.New(memstore.Options{Clock: c.clock})
	defer func() { _ = to.Close() }()
	c.copyAll(from, to)
	c.sameLines("what is exported", c.renderExport(to), c.renderExport(c.model))
}

// copyAll imports all that a store exports.
func (c *comparison) copyAll(from, to store.Portable) {
	c.t.Helper()
	for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
		p, err := from.Export(c.ctx, cursor)
		if err == nil {
			err = to.Import(c.ctx, p)
		}
		if err != nil || n > manyPages {
			c.t.Fatalf("copy, after %d parcels: %v", n, err)
		}
		cursor = p.Next
	}
}

// renderExport returns all that a memstore holds.
func (c *comparison) renderExport(s *memstore.Store) (lines []string) {
	c.t.Helper()
	for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
		p, err := s.Export(c.ctx, cursor)
		if err != nil {
			c.t.Fatalf("export: %v", err)
		}
		lines = append(lines, renderParcel(p)[1:]...)
		cursor = p.Next
	}
	return lines
}

// move continues with a new backend that has imported all that the old one exports, after
// all leases have ended: they stay behind.
func (c *comparison) move(t *rapid.T) {
	end := c.now()
	for _, l := range c.live {
		if l.until.After(end) {
			end = l.until
		}
	}
	c.pass(draw(c, t, "move", func(*rapid.T) (time.Duration, string) {
		return end.Sub(c.now()), fmt.Sprintf("after %v", end.Sub(c.now()))
	}))
	old := c.backend
	c.backend = c.another()
	stats, err := c.backend.Store.Stats(c.ctx)
	if err != nil {
		c.t.Fatalf("stats: %v", err)
	}
	if d := c.now().Sub(stats.Now); d > 0 {
		c.backend.Advance(d)
	}
	c.copyAll(old.Store.(store.Portable), c.backend.Store.(store.Portable))
	c.claims, c.live = nil, nil // their tokens mean nothing here
	c.lookAtAll()
}
