package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/abidehq/abide/internal/base"
)

// A process that goes by a directory of shards says so in its row (acked). From then on the last statement
// of each of its transactions checks the row. So a process whose row was removed, because it was
// suspended, commits nothing until it has acknowledged the directory again.
//
// The check is the last statement, after the writes. Then a transaction that passes it holds locks on
// the tables that it wrote, and Settle, which looks for these after it has seen the rows, waits for it.
const (
	fencedText = `this process counts as dead, so Abide does this again when it has read the directory of shards`

	checkFence = `SELECT (CASE WHEN EXISTS (SELECT FROM {schema}.processes p WHERE p.id = $1::text AND p.acked >= $2::int8)
	THEN '1' ELSE '` + fencedText + `' END)::int4`

	acknowledgeProcess = `UPDATE {schema}.processes SET acked = $2::int8, seen = clock_timestamp() WHERE id = $1::text`

	behindProcesses = `SELECT p.host, p.pid FROM {schema}.processes p WHERE p.acked < $1::int8 ORDER BY 1, 2`

	// The transactions that have written to the tables and not ended.
	writers = `SELECT l.virtualtransaction FROM pg_catalog.pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.pid <> pg_backend_pid()
	AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
	AND l.relation = ANY (ARRAY['{schema}.keys'::regclass, '{schema}.messages'::regclass, '{schema}.entries'::regclass, '{schema}.records'::regclass]::oid[])`
)

// settleEvery is how often Settle looks again.
const settleEvery = 20 * time.Millisecond

// isFenced reports whether a transaction was refused because of the row of its process.
func isFenced(err error) bool {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.Contains(reported.Message, fencedText)
}

// fence adds the check to a transaction, if the process has acknowledged a directory.
func (d *database) fence(b *pgx.Batch) {
	if acked := d.acked.Load(); acked > 0 {
		b.Queue(d.fenceText, d.process, acked)
	}
}

// Acknowledge notes the version of the directory of shards that this process goes by.
func (s *Store) Acknowledge(ctx context.Context, version int64) error {
	if err := s.Check(ctx, "acknowledge"); err != nil {
		return err
	}
	for {
		tag, err := s.db.commits.Exec(ctx, s.db.text.translate.Replace(acknowledgeProcess), s.db.process, version)
		if err != nil {
			s.db.demoted(err)
			return s.failed("acknowledge", err)
		}
		if tag.RowsAffected() > 0 {
			s.db.acked.Store(version)
			return nil
		}
		if err := s.db.enter(ctx); err != nil {
			return s.failed("acknowledge", err)
		}
	}
}

// Settle waits until all processes have acknowledged a version, and until what was written before has
// been committed or rolled back.
func (s *Store) Settle(ctx context.Context, version int64) error {
	if err := s.Check(ctx, "settle"); err != nil {
		return err
	}
	for {
		behind, err := s.db.behindOf(ctx, version)
		if err != nil {
			return s.failed("settle", err)
		}
		if len(behind) == 0 {
			break
		}
		if err := base.Sleep(ctx, s.db.machine, settleEvery); err != nil {
			return fmt.Errorf("pgstore: settle: processes that have not acknowledged version %d of the directory: %s: %w", version, strings.Join(behind, ", "), err)
		}
	}
	return s.settleWriters(ctx)
}

// behindOf returns the processes that have not acknowledged a version, after those that are dead were
// removed.
func (d *database) behindOf(ctx context.Context, version int64) (behind []string, err error) {
	sweep := d.text.translate.Replace(sweepProcesses)
	if err := d.read(ctx, sweep, []any{d.process, d.presence.gone.Milliseconds()}, drain); err != nil {
		return nil, err
	}
	err = d.read(ctx, d.text.translate.Replace(behindProcesses), []any{version}, func(r pgx.Rows) error {
		behind = nil
		var host string
		var pid int32
		_, err := pgx.ForEachRow(r, []any{&host, &pid}, func() error {
			behind = append(behind, fmt.Sprintf("%s/%d", host, pid))
			return nil
		})
		return err
	})
	return behind, err
}

// settleWriters waits until the transactions that are writing now have ended.
func (s *Store) settleWriters(ctx context.Context) error {
	before, err := s.db.writing(ctx)
	for err == nil && len(before) > 0 {
		if err = base.Sleep(ctx, s.db.machine, settleEvery/4); err != nil {
			return fmt.Errorf("pgstore: settle: %d transactions that have written do not end: %w", len(before), err)
		}
		var now map[string]bool
		if now, err = s.db.writing(ctx); err == nil {
			for id := range before {
				if !now[id] {
					delete(before, id)
				}
			}
		}
	}
	return s.failed("settle", err)
}

// writing returns the transactions that have written to the tables and not ended.
func (d *database) writing(ctx context.Context) (ids map[string]bool, err error) {
	err = d.read(ctx, d.text.translate.Replace(writers), nil, func(r pgx.Rows) error {
		ids = map[string]bool{}
		var id string
		_, err := pgx.ForEachRow(r, []any{&id}, func() error {
			ids[id] = true
			return nil
		})
		return err
	})
	return ids, err
}
