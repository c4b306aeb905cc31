package sqlitestore

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Stats returns what the store holds.
func (s *Store) Stats(ctx context.Context) (stats store.Stats, err error) {
	err = s.read(ctx, "stats", func(c *conn) error {
		now := s.now()
		stats = store.Stats{Waiting: s.Waiting(), Bytes: s.bytes(), Now: store.FromMillis(now), ClockLead: s.time.Lead()}
		var partitions []int64
		err := c.each(`SELECT queue, route, lane, pending FROM tally WHERE pending > 0 ORDER BY queue, route`, func(st *sqlite.Stmt) error {
			stats.Routes = append(stats.Routes, store.RouteStats{Queue: st.ColumnText(0), Route: st.ColumnText(1), Pending: st.ColumnInt(3)})
			partitions = append(partitions, st.ColumnInt64(2))
			return nil
		})
		if err != nil {
			return err
		}
		for i, partition := range partitions {
			if r := &stats.Routes[i]; r.Route != "" {
				if r.Ready, r.Oldest, err = c.readyIn(partition, now); err != nil {
					return err
				}
				leased, err := c.number(`SELECT coalesce(sum(json_array_length(delivered)), 0) FROM keys INDEXED BY keys_leased
WHERE lane = ? AND token IS NOT NULL AND until > ?`, partition, now)
				if err != nil {
					return err
				}
				r.Leased = min(int(leased), r.Ready)
			}
		}
		leases, err := c.number(`SELECT count(*) FROM keys INDEXED BY keys_leased WHERE token IS NOT NULL AND until > ?`, now)
		stats.Leases = int(leases)
		return err
	})
	return stats, err
}

// readyIn counts the messages of a partition that are visible, as far as is asked for, and
// returns when the oldest one is. Keys that are leased have messages too.
func (c *conn) readyIn(partition, now int64) (ready int, oldest time.Time, err error) {
	first := int64(rows.Never)
	type several struct{ num, seq, inline int64 } // when the message in the row is visible
	var keys []several
	scan := func(s *sqlite.Stmt) {
		at := s.ColumnInt64(0)
		first = min(first, at)
		switch {
		case at > now || ready+len(keys) >= store.ReadyCap:
		case s.ColumnInt64(1) == 1:
			ready++
		default:
			keys = append(keys, several{s.ColumnInt64(2), s.ColumnInt64(3), s.ColumnInt64(4)})
		}
	}
	err = c.each(`SELECT first, count, num, seq, coalesce(m_visible, 9223372036854775807) FROM keys INDEXED BY keys_due
WHERE lane = ? AND token IS NULL AND first <> 9223372036854775807 ORDER BY first LIMIT ?`, func(s *sqlite.Stmt) error {
		scan(s)
		if s.ColumnInt64(0) > now {
			return errEnd
		}
		return nil
	}, partition, store.ReadyCap)
	if err := ignoreEnd(err); err != nil {
		return 0, time.Time{}, err
	}
	err = c.each(`SELECT first, count, num, seq, coalesce(m_visible, 9223372036854775807) FROM keys INDEXED BY keys_leased WHERE lane = ? AND token IS NOT NULL`, func(s *sqlite.Stmt) error {
		scan(s)
		return nil
	}, partition)
	for _, k := range keys {
		if err != nil || ready >= store.ReadyCap {
			break
		}
		var n int
		if k.inline <= now {
			ready++
		}
		n, err = c.countVisible(k.num, k.seq, now, store.ReadyCap-ready)
		ready += n
	}
	if err != nil || first == rows.Never {
		return ready, time.Time{}, err
	}
	return ready, store.FromMillis(first), nil
}

// countVisible counts the visible messages of a key, up to limit.
func (c *conn) countVisible(num, seq, now int64, limit int) (int, error) {
	n, err := c.number(`SELECT count(*) FROM messages WHERE key = ? AND seq < 32 AND visible <= ?`, num, now)
	if err == nil && seq > early && int(n) < limit {
		var more int64
		more, err = c.number(`SELECT count(*) FROM (SELECT 1 FROM messages INDEXED BY messages_visible
WHERE key = ? AND seq >= 32 AND visible <= ? LIMIT ?)`, num, now, limit-int(n))
		n += more
	}
	return min(int(n), limit), err
}
