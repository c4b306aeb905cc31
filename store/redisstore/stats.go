package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/store"
)

// Limits returns those of the contract.
func (s *Store) Limits() store.Limits { return store.ContractLimits() }

// Stats returns what the store holds. Bytes is the size of the append-only file, which has
// everything on the server, other prefixes and databases included; in a cluster, the sum of
// those of the masters. Numbers of several segments are added; they are of almost the same
// moment.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	done, err := s.begin(ctx, "stats")
	if err != nil {
		return store.Stats{}, err
	}
	defer done()
	parts := make([]store.Stats, len(s.segments))
	err = s.forAll(func(i int, seg *segment) (err error) {
		parts[i], err = s.segmentStats(ctx, seg)
		return err
	})
	if err != nil {
		return store.Stats{}, err
	}
	stats := parts[0]
	for i := range parts[1:] {
		addStats(&stats, &parts[i+1])
	}
	slices.SortFunc(stats.Routes, func(a, b store.RouteStats) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Route, b.Route))
	})
	if s.several() {
		stats.Routes = mergeRoutes(stats.Routes)
	}
	stats.Bytes = s.bytes(ctx)
	stats.Waiting = s.waiting()
	return stats, nil
}

// addStats adds what a segment holds to what others hold.
func addStats(sum, part *store.Stats) {
	sum.Routes = append(sum.Routes, part.Routes...)
	sum.Leases += part.Leases
	sum.ClockLead = max(sum.ClockLead, part.ClockLead)
	if part.Now.After(sum.Now) {
		sum.Now = part.Now
	}
}

// mergeRoutes adds the rows of the same queue and route, which are beside each other.
func mergeRoutes(rows []store.RouteStats) (merged []store.RouteStats) {
	for _, row := range rows {
		n := len(merged)
		if n == 0 || merged[n-1].Queue != row.Queue || merged[n-1].Route != row.Route {
			merged = append(merged, row)
			continue
		}
		sum := &merged[n-1]
		sum.Pending += row.Pending
		sum.Ready = min(sum.Ready+row.Ready, store.ReadyCap)
		sum.Leased = min(sum.Leased+row.Leased, store.ReadyCap)
		if row.Oldest.Before(sum.Oldest) {
			sum.Oldest = row.Oldest
		}
	}
	return merged
}

// segmentStats returns what a segment holds, in no order.
func (s *Store) segmentStats(ctx context.Context, seg *segment) (stats store.Stats, err error) {
	m, err := s.eval(ctx, seg, statsScript, args{itoa(store.ReadyCap)})
	if err != nil {
		return stats, err
	}
	a := read(m)
	a.text()
	stats = store.Stats{Now: store.FromMillis(a.num()), Leases: int(a.num())}
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

func (s *Store) fileSize(ctx context.Context) (bytes int64) {
	c := s.client.Load()
	if !c.cluster {
		return fileSizeOf(ctx, c)
	}
	for _, node := range c.Nodes() {
		role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
		if err != nil || len(role) == 0 {
			continue
		}
		if kind, err := role[0].ToString(); err == nil && kind == "master" {
			bytes += fileSizeOf(ctx, node)
		}
	}
	return bytes
}

func fileSizeOf(ctx context.Context, c rueidis.Client) int64 {
	text, err := c.Do(ctx, c.B().Info().Section("persistence").Build()).ToString()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(text, "aof_current_size:")
	digits, _, _ := strings.Cut(rest, "\r")
	n, _ := strconv.ParseInt(digits, 10, 64) // a server without the file has no such line
	return n
}
