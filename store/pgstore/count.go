package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

// Count counts records that match q, in one statement, which stops at the limit. Without
// names, tags and a prefix it reads the index alone.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (n int, err error) {
	if err := store.ValidateCount(&q, limit); err != nil {
		return 0, err
	}
	if err := s.Check(ctx, "count"); err != nil {
		return 0, err
	}
	sql, args := s.db.countText(&q, limit)
	err = s.db.readWith(ctx, "statement_timeout = 0", sql, args, func(r pgx.Rows) error {
		_, err := pgx.ForEachRow(r, []any{&n}, func() error { return nil })
		return err
	})
	return n, s.failed("count", err)
}

func (d *database) countText(q *store.Query, limit int) (string, []any) {
	streams, where, args := streamsText(q)
	from, to := bounds(q)
	args = append(args, limit, from, to)
	n := len(args)
	where += fmt.Sprintf(" AND r.status = s.status AND r.time >= $%d::int8 AND r.time < $%d::int8", n-1, n)
	if len(q.Names) > 0 {
		args = append(args, names(q.Names))
		where += fmt.Sprintf(" AND r.name = ANY ($%d::bytea[])", len(args))
	}
	if len(q.Tags) > 0 {
		args = append(args, encodeTags(q.Tags))
		where += fmt.Sprintf(" AND r.tags @> $%d::bytea[]", len(args))
	}
	if q.Prefix != "" {
		args = append(args, []byte(q.Prefix))
		where += fmt.Sprintf(" AND substring(r.id FOR octet_length($%[1]d::bytea)) = $%[1]d::bytea", len(args))
	}
	// The order is that of one index, which is to be read: another one would do as well if
	// there were nothing in it.
	sql := `WITH RECURSIVE ` + streams + `
SELECT count(*) FROM (SELECT FROM s CROSS JOIN LATERAL (
	SELECT FROM {schema}.records r WHERE ` + where + ` ORDER BY r.time, r.num) c LIMIT ` + fmt.Sprintf("$%d::int8", n-2) + `) x`
	return d.text.translate.Replace(sql), args
}

// readWith is read with another setting than the connection has: for what may take as long as the
// caller likes to wait, who is told so by its context, say.
func (d *database) readWith(ctx context.Context, setting, sql string, args []any, scan func(pgx.Rows) error) error {
	ctx, cancel := d.within(ctx)
	defer cancel()
	for try := 1; ; try++ {
		b := &pgx.Batch{}
		queue(b, d.beginRelaxed)
		b.Queue("SET LOCAL " + setting)
		came := false
		b.Queue(sql, args...).Query(func(r pgx.Rows) error { return scan(&firstRow{Rows: r, came: &came}) })
		b.Queue("COMMIT")
		err := d.others.SendBatch(ctx, b).Close()
		if err == nil || came || ctx.Err() != nil || !isGone(err) || try >= d.staleTries() {
			return err
		}
	}
}
