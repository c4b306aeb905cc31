package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// NextDue returns, for each partition, the earliest time at which there may be something to pick.
func (s *Store) NextDue(ctx context.Context, partitions []int64) (now int64, at []int64, err error) {
	err = s.read(ctx, "claim", func(c *conn) error {
		at = make([]int64, len(partitions))
		for i, partition := range partitions {
			var err error
			if at[i], err = c.earliest(partition, s.lock.isAlone()); err != nil {
				return err
			}
		}
		return nil
	})
	return s.now(), at, err
}

// earliest returns when there may be something to pick in a partition, or, unless that is to
// wait, when something expires in one without a route.
func (c *conn) earliest(partition int64, alone bool) (int64, error) {
	at := int64(rows.Never)
	scan := func(s *sqlite.Stmt) { at = min(at, s.ColumnInt64(0)) }
	query := `SELECT first FROM keys INDEXED BY keys_due WHERE lane = ? AND token IS NULL AND first <> 9223372036854775807 ORDER BY first LIMIT 1`
	if alone {
		query = `SELECT CASE route WHEN '' THEN 9223372036854775807 ELSE first END FROM keys INDEXED BY keys_due
WHERE lane = ? AND token IS NULL AND first <> 9223372036854775807 ORDER BY first LIMIT 1`
	}
	if _, err := c.one(query, scan, partition); err != nil {
		return 0, err
	}
	_, err := c.one(firstEnd, scan, partition)
	return at, err
}

const (
	// firstEnd is when the first lease of a partition ends, or has ended.
	firstEnd = `SELECT until FROM keys INDEXED BY keys_leased WHERE lane = ? AND token IS NOT NULL ORDER BY until LIMIT 1`

	// firstOfTenant is when there is something to pick of a tenant in a partition.
	firstOfTenant = `SELECT first FROM keys INDEXED BY keys_turn
WHERE lane = ? AND turn = ? AND token IS NULL AND first <> 9223372036854775807 ORDER BY first LIMIT 1`
)

// nextOf returns when there may be something to pick for a request. Leases of other tenants than
// those of a limited request count: a pick ends them.
func (c *conn) nextOf(p *rows.LeaseRequest) (int64, error) {
	if p.Tenants == nil {
		return c.earliestOf(p.Partitions)
	}
	next := int64(rows.Never)
	scan := func(s *sqlite.Stmt) { next = min(next, s.ColumnInt64(0)) }
	for _, partition := range p.Partitions {
		if _, err := c.one(firstEnd, scan, partition); err != nil {
			return 0, err
		}
		for _, tenant := range p.Tenants {
			if _, err := c.one(firstOfTenant, scan, partition, tenant); err != nil {
				return 0, err
			}
		}
	}
	return next, nil
}

// earliestOf returns when there may be something to pick in some of the partitions.
func (c *conn) earliestOf(partitions []int64) (int64, error) {
	next := int64(rows.Never)
	for _, partition := range partitions {
		at, err := c.earliest(partition, false)
		if err != nil {
			return 0, err
		}
		next = min(next, at)
	}
	return next, nil
}

// Messages of a partition that have expired: those that are kept in rows of keys, and the others.
const (
	expiredInRows = `SELECT tenant, name, m_id FROM keys INDEXED BY keys_due
WHERE lane = ? AND token IS NULL AND first <> 9223372036854775807 AND first <= ? AND m_put + CASE m_ttl WHEN 0 THEN ? ELSE m_ttl END <= ?
ORDER BY first LIMIT ?`

	expired = `SELECT k.tenant, k.name, m.id FROM keys k INDEXED BY keys_due CROSS JOIN messages m ON m.key = k.num
WHERE k.lane = ? AND k.token IS NULL AND k.first <> 9223372036854775807 AND k.first <= ? AND m.put + CASE m.ttl WHEN 0 THEN ? ELSE m.ttl END <= ?
ORDER BY k.first LIMIT ?`
)

// Expired returns messages of keys without a route whose time to live has ended.
func (s *Store) Expired(ctx context.Context, queue string, limit int) (refs []rows.Ref, keys []store.Key, err error) {
	if s.lock.isAlone() {
		return nil, nil, nil
	}
	now, partition := s.now(), rows.PartitionOf(queue, "")
	err = s.read(ctx, "claim", func(c *conn) error {
		refs, keys = nil, nil
		add := func(st *sqlite.Stmt) error {
			key := store.Key{Queue: queue, Tenant: st.ColumnText(0), Name: st.ColumnText(1)}
			keys = append(keys, key)
			refs = append(refs, rows.Ref{Key: rows.IDOf(key), ID: st.ColumnText(2)})
			return nil
		}
		err := c.each(expiredInRows, add, partition, now, store.DefaultTTL.Milliseconds(), now, limit)
		if err != nil || len(refs) == limit {
			return err
		}
		return c.each(expired, add, partition, now, store.DefaultTTL.Milliseconds(), now, limit-len(refs))
	})
	return refs, keys, err
}

// Record returns a record. What a reader sees is durable: a commit shows after its sync.
func (s *Store) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return s.record(ctx, "await", key)
}

// Versions returns the versions of records.
func (s *Store) Versions(ctx context.Context, keys []store.RecordKey) ([]int64, error) {
	versions := make([]int64, len(keys))
	err := s.read(ctx, "await", func(c *conn) (err error) {
		for i, key := range keys {
			if versions[i], err = c.number(versionOf, key.Kind, key.Tenant, key.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return versions, err
}

const versionOf = `SELECT version FROM records WHERE kind = ? AND tenant = ? AND id = ?`

// Get returns a record.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	return s.record(ctx, "get", key)
}

func (s *Store) record(ctx context.Context, verb string, key store.RecordKey) (r store.Record, err error) {
	err = s.read(ctx, verb, func(c *conn) error {
		var bad error
		found, err := c.one(`SELECT `+recordColumns+` FROM records WHERE kind = ? AND tenant = ? AND id = ?`,
			func(st *sqlite.Stmt) { r, bad = scanRecord(st, 0) }, key.Kind, key.Tenant, key.ID)
		switch {
		case err != nil:
			return err
		case !found:
			return store.NotFound(verb, key)
		}
		return bad
	})
	return r, err
}

// Announce does nothing: others see that the file has changed.
func (s *Store) Announce(*rows.Announcement) {}

// Watch does nothing: every change is a hint.
func (s *Store) Watch([]int64) {}

// Process returns 0: keys are not reserved for processes on one machine.
func (s *Store) Process() int64 { return 0 }

// Present reports false: see Process.
func (s *Store) Present(int64) bool { return false }

// Alone does not matter: there is one writer.
func (s *Store) Alone() bool { return true }

// Hinted reports that what others do is seen.
func (s *Store) Hinted() bool { return true }
