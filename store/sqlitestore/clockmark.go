package sqlitestore

import (
	"context"

	"github.com/abidehq/abide/store"
)

var _ store.Marked = (*Store)(nil)

// ClockMark returns the latest time in the file, and that of the machine.
func (s *Store) ClockMark(ctx context.Context) (mark store.ClockMark, err error) {
	err = s.read(ctx, "clock", func(c *conn) error {
		mark, err = s.readMark(c)
		return err
	})
	return mark, err
}

func (s *Store) readMark(c *conn) (store.ClockMark, error) {
	ms, err := c.number("SELECT value FROM meta WHERE name = 'time'")
	return store.ClockMark{Mark: store.FromMillis(ms), Clock: store.FromMillis(s.clock.Now().UnixMilli())}, err
}

// ResetClockMark writes the time of the machine into the file.
func (s *Store) ResetClockMark(ctx context.Context) (mark store.ClockMark, err error) {
	if err := s.check(ctx, "reset the clock"); err != nil {
		return mark, err
	}
	err = s.transact(ctx, "reset the clock", true, func(w *writer) (bool, error) {
		if mark, err = s.readMark(w.conn); err != nil {
			return false, err
		}
		return true, w.exec("UPDATE meta SET value = ? WHERE name = 'time'", mark.Clock.UnixMilli())
	})
	return mark, err
}
