package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// Stats returns what the store holds. Bytes is the size of the append-only file, which has
// everything on the server, other prefixes and databases included.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	done, err := s.begin(ctx, "stats")
	if err != nil {
		return store.Stats{}, err
	}
	defer done()
	m, err := s.eval(ctx, statsScript, args{itoa(store.ReadyCap)})
	if err != nil {
		return store.Stats{}, err
	}
	a := read(m)
	a.text()
	stats := store.Stats{Now: store.FromMillis(a.num()), Leases: int(a.num())}
	for rows := a.sub(); rows.more(); {
		r := rows.sub()
		partition, pending, ready, oldest, leased := r.text(), r.num(), r.num(), r.num(), r.num()
		row := store.RouteStats{Pending: int(pending)}
		if row.Queue, row.Route, err = parsePartition(partition); err != nil {
			return store.Stats{}, err
		}
		if row.Route != "" {
			row.Ready, row.Leased, row.Oldest = int(ready), int(min(leased, ready)), store.FromMillis(oldest)
		}
		stats.Routes = append(stats.Routes, row)
	}
	stats.ClockLead = durationMS(a.num())
	if a.err != nil {
		return store.Stats{}, fmt.Errorf("redisstore: stats: %w", a.err)
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	stats.Bytes = s.bytes(ctx)
	stats.Waiting = s.waiting()
	return stats, nil
}

func (s *Store) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits.Waiting()
}

// sizeMaxAge is how long the size of the file is cached.
const sizeMaxAge = time.Minute

// bytes returns about the size of the append-only file, and 0 if there is none or the server
// does not tell.
func (s *Store) bytes(ctx context.Context) int64 {
	s.size.Lock()
	defer s.size.Unlock()
	if now := s.wall.Now(); s.size.at.IsZero() || now.Sub(s.size.at) > sizeMaxAge {
		s.size.at, s.size.bytes = now, s.fileSize(ctx)
	}
	return s.size.bytes
}

func (s *Store) fileSize(ctx context.Context) int64 {
	c := s.client.Load()
	text, err := c.Do(ctx, c.B().Info().Section("persistence").Build()).ToString()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(text, "aof_current_size:")
	digits, _, _ := strings.Cut(rest, "\r")
	n, _ := strconv.ParseInt(digits, 10, 64) // a server without the file has no such line
	return n
}
