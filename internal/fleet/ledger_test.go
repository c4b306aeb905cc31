package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/abidehq/abide/internal/base"
)

// ledgerSchema is what activities and steps have done to the world. An effect of an
// activity has one row, however often it was tried; an attempt has a row when it begins,
// and one that begins a second time breaks the rule that attempts are counted before
// anybody sees them. A step has a row each time that it is run.
const ledgerSchema = `
CREATE SCHEMA ledger;
CREATE TABLE ledger.attempts (
	key      text NOT NULL,
	attempt  int NOT NULL,
	instance text NOT NULL,
	step     text NOT NULL,
	worker   text NOT NULL,
	begun    int NOT NULL DEFAULT 1,
	at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (key, attempt)
);
CREATE TABLE ledger.effects (
	key      text PRIMARY KEY,
	receipt  bigserial,
	instance text NOT NULL,
	step     text NOT NULL,
	attempt  int NOT NULL,
	worker   text NOT NULL
);
CREATE TABLE ledger.weighings (
	instance text NOT NULL,
	worker   text NOT NULL
);`

// ledger keeps account of what a process does. It has a way of its own to the database:
// what happens to the world happens also when the engine cannot reach its store.
type ledger struct {
	pool   *pgxpool.Pool
	worker string
}

// theLedger is that of this process.
var theLedger *ledger

// attempt says what an activity is run for.
type attempt struct {
	instance string
	key      string
	number   int
}

func openLedger(ctx context.Context, url, worker string) (*ledger, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &ledger{pool: pool, worker: worker}, nil
}

// begin notes that an attempt has begun.
func (l *ledger) begin(ctx context.Context, a attempt, step string) error {
	_, err := l.pool.Exec(ctx, `INSERT INTO ledger.attempts AS a (key, attempt, instance, step, worker) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (key, attempt) DO UPDATE SET begun = a.begun + 1`, a.key, a.number, a.instance, step, l.worker)
	return err
}

// perform is what all activities do: it takes a while, and then has its effect, once for
// each key. It returns the receipt, the same one each time.
func (l *ledger) perform(ctx context.Context, a attempt, d deed) (string, error) {
	if err := l.begin(ctx, a, d.Step); err != nil {
		return "", err
	}
	if d.Takes > 0 {
		if err := base.Sleep(ctx, base.System{}, d.Takes); err != nil {
			return "", err
		}
	}
	if d.Flaky && a.number == 1 {
		return "", errFlaky
	}
	if _, err := l.pool.Exec(ctx, `INSERT INTO ledger.effects (key, instance, step, attempt, worker) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (key) DO NOTHING`, a.key, a.instance, d.Step, a.number, l.worker); err != nil {
		return "", err
	}
	var receipt int64
	if err := l.pool.QueryRow(ctx, `SELECT receipt FROM ledger.effects WHERE key = $1`, a.key).Scan(&receipt); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s#%d", d.Step, receipt), nil
}

// weigh is what steps do. It takes a while too, so that a process is lost now and then
// while it has a turn.
func (l *ledger) weigh(ctx context.Context, instance string) error {
	if err := base.Sleep(ctx, base.System{}, 60*time.Millisecond); err != nil {
		return err
	}
	_, err := l.pool.Exec(ctx, `INSERT INTO ledger.weighings (instance, worker) VALUES ($1, $2)`, instance, l.worker)
	return err
}

// entry is an effect that the world has seen.
type entry struct {
	instance, step, receipt string
}

// effects returns all effects.
func (l *ledger) effects(ctx context.Context) ([]entry, error) {
	rows, err := l.pool.Query(ctx, `SELECT instance, step, step || '#' || receipt FROM ledger.effects`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.instance, &e.step, &e.receipt); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// count returns how many effects there are.
func (l *ledger) count(ctx context.Context) (n int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*) FROM ledger.effects`).Scan(&n)
	return n, err
}

// begun returns how many attempts a worker has begun.
func (l *ledger) begun(ctx context.Context, worker string) (n int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*) FROM ledger.attempts WHERE worker = $1`, worker).Scan(&n)
	return n, err
}

// attempts returns how many activities have begun their nth attempt.
func (l *ledger) attempts(ctx context.Context, nth int) (n int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*) FROM ledger.attempts WHERE attempt = $1`, nth).Scan(&n)
	return n, err
}

// takenOver returns how many attempts followed one of another worker that did not fail: no
// worker lets others go on with what it has begun.
func (l *ledger) takenOver(ctx context.Context) (n int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*) FROM ledger.attempts a
		JOIN ledger.attempts b ON b.key = a.key AND b.attempt = a.attempt - 1 AND b.worker <> a.worker
		WHERE a.step <> 'stock'`).Scan(&n)
	return n, err
}

// weighed returns how many steps were run, and of how many instances.
func (l *ledger) weighed(ctx context.Context) (steps, instances int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(*), count(DISTINCT instance) FROM ledger.weighings`).Scan(&steps, &instances)
	return steps, instances, err
}

// longestGap returns how long it took at most from one attempt to the next.
func (l *ledger) longestGap(ctx context.Context) (gap time.Duration, err error) {
	err = l.pool.QueryRow(ctx, `SELECT coalesce(max(gap), '0') FROM (
		SELECT at - lag(at) OVER (PARTITION BY key ORDER BY attempt) AS gap FROM ledger.attempts) a`).Scan(&gap)
	return gap, err
}

// problems returns the attempts that began twice under one number, and those that came
// longer after the one before than is allowed, by the clock of the database.
func (l *ledger) problems(ctx context.Context, within time.Duration) ([]string, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT format('attempt %s at %s of %s began %s times', attempt, step, instance, begun) FROM ledger.attempts WHERE begun > 1
		UNION ALL
		SELECT format('attempt %s at %s of %s, by %s, came %s after that of %s', attempt, step, instance, worker, gap, before)
		FROM (SELECT *, at - lag(at) OVER w AS gap, lag(worker) OVER w AS before FROM ledger.attempts
			WINDOW w AS (PARTITION BY key ORDER BY attempt)) a
		WHERE gap > $1`, within)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
