package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// pickBytes is about how many bytes of messages a LeaseReady call returns; the rest is left for the next one.
const pickBytes = 64 << 20

// picker is a LeaseReady call in its transaction.
type picker struct {
	*conn
	p    *rows.LeaseRequest
	now  int64
	got  *rows.LeaseResult
	size int

	// walkedTo is the turn of the tenant at which a walk gave up, or nil, and walked is how
	// many of the chosen keys it has found.
	walked   int
	walkedTo *int64

	changed bool
}

// LeaseReady leases keys that are ready. It reads first, on a connection that takes no lock, and takes
// the write lock only if something is due. The transaction is not synced: if the machine loses
// power, the lease is lost together with everything after it, none of which was acknowledged.
func (s *Store) LeaseReady(ctx context.Context, p *rows.LeaseRequest) (*rows.LeaseResult, error) {
	alone := s.lock.isAlone() // then nothing expires
	got := &rows.LeaseResult{LastTenant: p.AfterTenant}
	if err := s.read(ctx, "claim", func(c *conn) (err error) {
		got.Now = s.now()
		if got.Next, err = c.nextOf(p); err != nil {
			return err
		}
		got.Expires, err = c.earliest(p.Expiring, alone)
		return err
	}); err != nil {
		return nil, err
	}
	if got.Next > got.Now {
		return got, nil
	}
	err := s.transact(ctx, "claim", false, func(w *writer) (bool, error) {
		k := &picker{conn: w.conn, p: p, now: s.now(), got: &rows.LeaseResult{LastTenant: p.AfterTenant}}
		got = k.got
		err := k.run(alone)
		return k.changed, err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func (k *picker) run(alone bool) error {
	k.got.Now = k.now
	more, err := k.endLeases()
	if err != nil {
		return err
	}
	ready, err := k.choose()
	if err != nil {
		return err
	}
	for _, r := range ready {
		if len(k.got.Keys) == k.p.Max || k.size > pickBytes {
			break
		}
		if err := k.lease(r); err != nil {
			return err
		}
	}
	if k.walkedTo != nil && len(k.got.Keys) >= k.walked {
		k.got.LastTenant = *k.walkedTo // tenants that were passed over have nothing ready
	}
	if k.got.Next, err = k.nextOf(k.p); err != nil {
		return err
	}
	if k.got.Next <= k.now || more {
		k.got.Next = 0
	}
	k.got.Expires, err = k.earliest(k.p.Expiring, alone)
	return err
}

// maxEnded is how many expired leases a LeaseReady call ends at once.
const maxEnded = 10_000

// endLeases ends expired leases and counts their attempts, so that their keys are ready like any
// other. It reports whether there may be more of them.
func (k *picker) endLeases() (more bool, err error) {
	n := 0
	for _, partition := range k.p.Partitions {
		type over struct {
			num       int64
			delivered []int64
			inline    int64 // the number of the message that is kept in the row, or -1
		}
		var found []over
		err := k.each(endedInPartition, func(s *sqlite.Stmt) error {
			found = append(found, over{s.ColumnInt64(0), parseSeqs(s.ColumnText(1)), s.ColumnInt64(2)})
			return nil
		}, partition, k.now, maxEnded-n)
		if err != nil {
			return false, err
		}
		for _, o := range found {
			k.changed = true
			inline := 0
			for _, seq := range o.delivered {
				if seq == o.inline {
					inline++
					continue
				}
				if err := k.exec(countAttempt, o.num, seq); err != nil {
					return false, err
				}
			}
			if err := k.exec(`UPDATE keys SET token = NULL, until = NULL, delivered = NULL, m_attempt = m_attempt + ? WHERE num = ?`, inline, o.num); err != nil {
				return false, err
			}
		}
		if n += len(found); n >= maxEnded {
			return true, nil
		}
	}
	return false, nil
}

// lease leases a key, and reads its visible messages.
func (k *picker) lease(r readyKey) error {
	var row *rows.KeyRow
	if _, err := k.one(`SELECT `+keyColumns+` FROM keys WHERE num = ?`, func(s *sqlite.Stmt) { _, row = scanKey(s) }, r.num); err != nil || row == nil {
		return err
	}
	identify(row, rows.IDOf(row.Key))
	visible, err := k.visible(r.num, row)
	if err != nil {
		return err
	}
	picked := rows.LeasedKey{}
	size := 0
	for i := range visible {
		m := &visible[i]
		if len(picked.Messages) == k.p.MaxMessages || (len(picked.Messages) > 0 && size+m.size > store.PageBytes) {
			break
		}
		if k.p.MaxAttempts > 0 && m.Attempt >= k.p.MaxAttempts {
			picked.Exhausted = append(picked.Exhausted, m.MessageRow)
			continue
		}
		if m.Body == nil {
			if err := k.readBody(r.num, &m.MessageRow); err != nil {
				return err
			}
		}
		size += m.size
		row.Delivered = append(row.Delivered, m.Seq)
		picked.Messages = append(picked.Messages, m.MessageRow)
	}
	k.changed = true
	if len(picked.Messages) == 0 && len(picked.Exhausted) == 0 {
		// The row promised a message that is not there. Verify tells of such a thing; here it
		// must not be found ready for ever.
		if row.First, err = k.firstOf(r.num, row); err != nil {
			return err
		}
		return k.updateKey(r.num, row)
	}
	row.Token = k.p.Tokens[len(k.got.Keys)]
	row.Until = k.now + k.p.Lease
	if err := k.exec(`UPDATE keys SET token = ?, until = ?, delivered = ? WHERE num = ?`,
		row.Token, row.Until, formatSeqs(row.Delivered), r.num); err != nil {
		return err
	}
	k.size += size
	picked.Row = *row
	k.got.Keys = append(k.got.Keys, picked)
	k.got.LastTenant = r.turn
	return nil
}
