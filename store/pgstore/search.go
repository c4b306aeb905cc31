package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

// searchIndex is an index that knows which records may match a query, in no order of a list.
type searchIndex int

const (
	byPrefix searchIndex = iota // records_id: the prefix
	byTags                      // records_tags: all tags at once
)

// gatherMost is how many candidates of an index a list reads to sort them. Where there are more,
// records that match are near each other in time: in a million, each two hundredth.
const gatherMost = 5_000

// searchIndexes returns the indexes that may help a list. There is none in a transaction of the
// caller's, whose settings are not ours to change.
func searchIndexes(ctx context.Context, q *store.Query) (list []searchIndex) {
	if txOf(ctx) != nil {
		return nil
	}
	if q.Prefix != "" {
		list = append(list, byPrefix)
	}
	if len(q.Tags) > 0 {
		list = append(list, byTags)
	}
	return list
}

// gather makes the rest of the page of all that an index has, and reports whether it could not: there
// is too much.
func (l *lister) gather(ctx context.Context, index searchIndex) (more bool, err error) {
	sql, args := l.db.gatherText(l.q, l.at, index)
	read := func(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
		return l.db.readWith(ctx, "enable_bitmapscan = on", sql, args, scan) // the only way to use the index of tags
	}
	k, err := l.look(ctx, read, sql, args, l.room()+1)
	if err != nil || k.candidates > gatherMost {
		return true, err
	}
	l.add(k)
	return false, nil
}

// gatherText returns the statement of a page that is made of the candidates of an index, and its
// parameters but the last four, which are those of listText.
func (d *database) gatherText(q *store.Query, at position, index searchIndex) (string, []any) {
	where, args := []string{"r.kind = $1::bytea"}, []any{[]byte(q.Kind)}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if q.Tenant != nil {
		add("r.tenant = $%d::bytea", []byte(*q.Tenant))
	}
	if len(q.Statuses) > 0 {
		add("r.status = ANY ($%d::bytea[])", names(q.Statuses))
	}
	var candidates string
	if index == byTags {
		args = append(args, encodeTags(q.Tags))
		candidates = fmt.Sprintf("r.tags @> $%d::bytea[] AND r.tags <> '{}'", len(args))
	} else {
		args = append(args, []byte(q.Prefix), afterPrefix(q.Prefix))
		n := len(args)
		candidates = fmt.Sprintf("r.kind = $1::bytea AND r.id >= $%d::bytea AND r.id < $%d::bytea ORDER BY r.id", n-1, n)
	}
	t := newPageText(q, at, args)
	looked := `candidates AS MATERIALIZED (
	SELECT r.key, r.kind, r.tenant, r.id, r.time, r.num, r.status, r.name, r.tags FROM {schema}.records r
	WHERE ` + candidates + ` LIMIT ` + fmt.Sprint(gatherMost+1) + `
),
looked AS MATERIALIZED (
	SELECT r.key, r.time, r.num FROM candidates r
	WHERE ` + strings.Join(where, " AND ") + ` AND ` + t.between + ` AND ` + t.filter + `
	ORDER BY r.time ` + t.order + `, r.num ` + t.order + ` LIMIT ` + t.batch + `
)`
	return d.text.translate.Replace(t.statement(looked, "(SELECT count(*) FROM candidates)")), t.args
}

// afterPrefix returns what comes after all IDs that begin with a prefix: no ID is as long as what is
// after those that begin with the largest bytes.
func afterPrefix(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return []byte(strings.Repeat("\xff", store.MaxName+1))
}
