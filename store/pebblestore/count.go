package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/abidehq/abide/store"
)

// countSteps is how many keys of the index a count looks at before it asks whether
// anybody still wants to know.
const countSteps = 1024

// counter is a Count call.
type counter struct {
	scan
	store *Store
	limit int
	n     int
	steps int
}

// Count counts keys of the index, and reads records only if q filters by what the
// index does not know. It holds nothing that a commit needs.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	release, err := s.read(ctx, "count")
	if err != nil {
		return 0, err
	}
	defer release()
	c := counter{store: s, limit: limit}
	if c.scan, err = s.scan(&q); err != nil {
		return 0, s.readError("count", err)
	}
	if err = c.close(c.count(ctx)); err != nil {
		return 0, s.readError("count", err)
	}
	return c.n, nil
}

func (c *counter) count(ctx context.Context) error {
	roots, _ := c.roots()
	for _, root := range roots {
		if err := c.countUnder(ctx, root); err != nil || c.n == c.limit {
			return err
		}
	}
	return nil
}

// countUnder counts what has an index key with this prefix. It goes from stream to
// stream as it finds them, so that a count with a small limit does not look for all.
func (c *counter) countUnder(ctx context.Context, root []byte) error {
	var streamPrefix []byte
	found := c.it.SeekGE(root)
	for found && bytes.HasPrefix(c.it.Key(), root) {
		if err := c.pause(ctx); err != nil {
			return err
		}
		names, location := c.it.Key()[:len(c.it.Key())-16], c.it.Key()[len(c.it.Key())-16:]
		streamPrefix = append(streamPrefix[:0], names...)
		switch ms := int64(binary.BigEndian.Uint64(location)); {
		case ms >= c.to:
			found = c.it.SeekGE(upper(streamPrefix))
			continue
		case ms < c.from:
			found = c.it.SeekGE(binary.BigEndian.AppendUint64(slices.Clone(streamPrefix), uint64(c.from)))
			continue
		}
		match, err := c.matches(binary.BigEndian.Uint64(location[8:]))
		if err != nil {
			return err
		}
		if match {
			if c.n++; c.n == c.limit {
				return nil
			}
		}
		found = c.it.Next()
	}
	return c.it.Error() // the next move would forget it
}

// matches reports whether the record with a number, which the index says is one to
// count, matches what the index does not know.
func (c *counter) matches(num uint64) (bool, error) {
	if !c.readsRecords() {
		return true, nil
	}
	rec, err := c.store.readRecordAt(c.view, num)
	return err == nil && matches(c.q, &rec), err
}

// pause returns an error, now and then, if ctx has ended or the store is being closed:
// a count may take seconds, and closing waits for it.
func (c *counter) pause(ctx context.Context) error {
	if c.steps++; c.steps%countSteps != 0 {
		return nil
	}
	select {
	case <-c.store.closing:
		return c.store.ended("count")
	default:
		return ctx.Err()
	}
}
