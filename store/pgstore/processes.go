package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// presence is the timing of the table of processes. Each process that has the store open has a row
// there, which it renews every so often; one that was not renewed for longer than gone counts
// as dead. The table decides whether a process is alone, which lets it use the row cache and
// leave out notifications, and carries the exclusive flag of Exclude.
type presence struct{ every, gone time.Duration }

var defaultPresence = presence{every: 20 * time.Second, gone: time.Minute}

const (
	lockProcesses = `LOCK TABLE {schema}.processes IN SHARE ROW EXCLUSIVE MODE`

	sweepProcesses = `DELETE FROM {schema}.processes WHERE id <> $1::text AND seen < clock_timestamp() - $2::int8 * interval '1 millisecond'`

	// No process enters while another one is exclusive.
	enterProcess = `INSERT INTO {schema}.processes (id, host, pid, opened, seen, exclusive, number)
SELECT $1::text, $2::text, $3::int4, clock_timestamp(), clock_timestamp(), false, $4::int8
WHERE NOT EXISTS (SELECT FROM {schema}.processes WHERE exclusive AND id <> $1::text)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen`

	seeProcess = `WITH gone AS (DELETE FROM {schema}.processes p
	WHERE p.id <> $1::text AND p.seen < clock_timestamp() - $2::int8 * interval '1 millisecond')
UPDATE {schema}.processes SET seen = clock_timestamp() WHERE id = $1::text RETURNING id,
	(SELECT coalesce(max(m.number), 0) FROM {schema}.migrations m),
	(SELECT coalesce(max(` + oldestOf + `), 0) FROM {schema}.migrations m WHERE m.number > $3::int4)`

	leaveProcess = `DELETE FROM {schema}.processes WHERE id = $1::text`

	excludeOthers = `UPDATE {schema}.processes SET exclusive = true, seen = clock_timestamp()
WHERE id = $1::text AND NOT EXISTS (SELECT FROM {schema}.processes WHERE id <> $1::text)`

	includeOthers = `UPDATE {schema}.processes SET exclusive = false, seen = clock_timestamp() WHERE id = $1::text`
)

// enter inserts the row of this process. It returns store.ErrInUse if another one is exclusive.
func (d *database) enter(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	n, err := d.amongProcesses(ctx, d.text.sql(enterProcess), d.process, host, os.Getpid(), d.number)
	if err != nil {
		return failed("open", err)
	}
	if n == 0 {
		return fmt.Errorf("pgstore: open: another process has schema %s for itself: %w", d.config.schema, store.ErrInUse)
	}
	return nil
}

// amongProcesses runs a statement on the table of processes under a lock that keeps others from
// entering, after the rows of dead processes were removed, and returns how many rows it changed.
func (d *database) amongProcesses(ctx context.Context, sql string, args ...any) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = pgx.BeginFunc(ctx, d.commits, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockWait.Milliseconds())); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, d.text.translate.Replace(lockProcesses)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, d.text.translate.Replace(sweepProcesses), d.process, d.presence.gone.Milliseconds()); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	d.demoted(err)
	return n, err
}

// heartbeats renews the row of this process until ctx ends.
func (d *database) heartbeats(ctx context.Context) {
	for base.Sleep(ctx, d.machine, d.presence.every) == nil {
		if err := d.heartbeat(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("process record not renewed", "error", err)
		}
	}
}

// heartbeat renews the row of this process, removes those of dead ones, and checks that this
// program may still work on the tables. A process whose row was removed, because it was suspended
// for longer than a minute, say, enters again; while that is refused, so is every commit.
func (d *database) heartbeat(ctx context.Context) error {
	there, format, oldest := "", 0, 0
	args := []any{d.process, d.presence.gone.Milliseconds(), d.format}
	if err := d.readOne(ctx, d.text.sql(seeProcess), args, &there, &format, &oldest); err != nil {
		return err
	}
	if !d.Alone() {
		d.peers.readSoon()
	}
	if there == "" {
		return d.enter(ctx)
	}
	if err := store.CheckFormat(format, oldest, d.format); err != nil {
		d.setUnfit(fmt.Errorf("pgstore: schema %s: %w", d.config.schema, err))
	}
	return nil
}

// setUnfit makes the store unusable: since it was opened, its tables have been migrated to a format
// that this program must not work on.
func (d *database) setUnfit(err error) {
	if d.unfit.CompareAndSwap(nil, &err) {
		d.log.Error("store format is too new for this program", "error", err)
		d.onUnfit()
	}
}

// fit returns the error with which all calls of an unusable store fail, or nil.
func (d *database) fit() error {
	if err := d.unfit.Load(); err != nil {
		return *err
	}
	return nil
}

// leave sends the last announcements, and removes the row of this process. If the server does not
// answer, the others count it as dead in a minute.
func (d *database) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	d.announcer.send(ctx)
	if err := d.read(ctx, d.text.sql(leaveProcess), []any{d.process}, drain); err != nil {
		d.log.Warn("process record not removed", "error", err)
	}
	return nil
}

// leaveTime is the longest that closing a store waits for the server, for each of its last words.
const leaveTime = 5 * time.Second

// Exclude keeps other processes out until release is called. It returns store.ErrInUse if another
// process has the store open. While it lasts nothing expires to quarantine.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	if err := s.Check(ctx, "exclude"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.db.amongProcesses(ctx, s.db.text.sql(excludeOthers), s.db.process)
	if err != nil {
		return nil, s.failed("exclude", err)
	}
	if n == 0 {
		return nil, fmt.Errorf("pgstore: exclude: schema %s is open elsewhere: %w", s.db.config.schema, store.ErrInUse)
	}
	s.excluded++
	s.Hold(true)
	var once sync.Once
	return func() (err error) {
		once.Do(func() { err = s.include() })
		return err
	}, nil
}

// include ends the exclusion, with the last release.
func (s *Store) include() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excluded--; s.excluded > 0 {
		return nil
	}
	s.Hold(false)
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if err := s.Check(ctx, "release"); errors.Is(err, store.ErrClosed) {
		return nil // closing it has let them in
	}
	_, err := s.db.amongProcesses(ctx, s.db.text.sql(includeOthers), s.db.process)
	return s.failed("release", err)
}
