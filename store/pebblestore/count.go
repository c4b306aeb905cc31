package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/abidehq/abide/store"
)

// countSteps is how many keys a count or a verification reads before it checks whether its
// context has ended or the store is being closed.
const countSteps = 1024

// counter is a Count call.
type counter struct {
	scan
	store *Store
	limit int
	n     int // records counted so far
	steps int // keys read so far
}

// Count counts keys of the index, and reads records only if q filters by names or tags,
// which the index does not have. It counts in one view of the database, without the mutex,
// so that it delays no commit and the number is that of one moment.
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

// count counts one index prefix after another, until the limit is reached.
func (c *counter) count(ctx context.Context) error {
	roots, _ := c.roots()
	for _, root := range roots {
		if err := c.countUnder(ctx, root); err != nil || c.n == c.limit {
			return err
		}
	}
	return nil
}

// countUnder counts the records with this index prefix. It goes from stream to
// stream as it finds them, so that a count with a small limit does not visit all.
// Within a stream it seeks to the first record in the range of time, and past its end.
func (c *counter) countUnder(ctx context.Context, root []byte) error {
	var streamPrefix []byte
	found := c.it.SeekGE(root)
	for found && bytes.HasPrefix(c.it.Key(), root) {
		if err := c.checkEnded(ctx); err != nil {
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
	return c.it.Error() // the next move would clear it
}

// matches reports whether the record with a number, which the index has found, matches the
// names and tags of the query.
func (c *counter) matches(num uint64) (bool, error) {
	if !c.readsRecords() {
		return true, nil
	}
	rec, err := c.store.readRecordAt(c.view, num)
	return err == nil && matches(c.q, &rec), err
}

// checkEnded returns an error, every countSteps calls, if ctx has ended or the store is being
// closed: a count may take seconds, and Close waits for it.
func (c *counter) checkEnded(ctx context.Context) error {
	if c.steps++; c.steps%countSteps != 0 {
		return nil
	}
	select {
	case <-c.store.closing:
		return c.store.closedError("count")
	default:
		return ctx.Err()
	}
}
