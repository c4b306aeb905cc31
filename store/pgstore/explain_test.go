package pgstore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// literal returns a value as SQL has it.
func literal(v any) string {
	switch v := v.(type) {
	case []int64:
		return "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'"
	case []string:
		return "'{" + strings.Join(v, ",") + "}'"
	case pgtype.FlatArray[pgtype.UUID]:
		var ids []string
		for _, id := range v {
			ids = append(ids, fmt.Sprintf("%x", id.Bytes))
		}
		return "'{" + strings.Join(ids, ",") + "}'"
	case []byte:
		return fmt.Sprintf(`'\x%x'`, v)
	case [][]byte:
		parts := []string{}
		for _, b := range v {
			parts = append(parts, fmt.Sprintf(`"\\x%x"`, b))
		}
		return "'{" + strings.Join(parts, ",") + "}'"
	}
	return fmt.Sprint(v)
}

// explain runs a statement as the store does, with a plan that is made for any
// parameters, takes it back, and returns the plan.
func explain(t *testing.T, s *Store, sql string, args []any) string {
	t.Helper()
	return explainWith(t, s, "ANALYZE, BUFFERS, COSTS off, TIMING off", sql, args)
}

func explainWith(t *testing.T, s *Store, options, sql string, args []any) string {
	t.Helper()
	return explainSet(t, s, "enable_seqscan = off", options, sql, args)
}

// explainSet is explainWith with a setting.
func explainSet(t *testing.T, s *Store, setting, options, sql string, args []any) string {
	t.Helper()
	var values []string
	for _, a := range args {
		values = append(values, literal(a))
	}
	conn, err := s.db.others.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) (lines []string) {
		t.Helper()
		results, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
		for _, row := range results[0].Rows {
			lines = append(lines, string(row[0]))
		}
		return lines
	}
	list := ""
	if len(values) > 0 {
		list = "(" + strings.Join(values, ", ") + ")"
	}
	run("BEGIN")
	_, err = conn.Conn().PgConn().Exec(t.Context(), "SET LOCAL "+setting).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	run("PREPARE explained AS " + sql)
	plan := run("EXPLAIN (" + options + ") EXECUTE explained" + list)
	run("ROLLBACK")
	run("DEALLOCATE explained")
	return strings.Join(plan, "\n")
}

// usesIndexes fails if a plan reads a whole table, or more of it than it should.
func usesIndexes(t *testing.T, name, plan string, maxPages int) {
	t.Helper()
	whole := regexp.MustCompile(`(Seq Scan|Bitmap Heap Scan) on (keys|messages|entries|records)`)
	if found := whole.FindString(plan); found != "" {
		t.Errorf("%s: %s\n%s", name, found, plan)
	}
	pages := 0
	// The first line of the kind is that of the whole.
	if _, err := fmt.Sscanf(regexp.MustCompile(`shared hit=\d+`).FindString(plan), "shared hit=%d", &pages); err != nil || pages > maxPages {
		t.Errorf("%s: %d pages were read, %d should do\n%s", name, pages, maxPages, plan)
	}
}

// knownAsEmpty makes the server believe for the rest of the test that the tables are empty:
// it last looked at them when they were.
func knownAsEmpty(t *testing.T, s *Store) {
	t.Helper()
	set := func(what string) {
		sql := ""
		for _, table := range tables {
			sql += fmt.Sprintf("ALTER TABLE %[1]s.%[2]s "+what+"; DELETE FROM %[1]s.%[2]s; ANALYZE %[1]s.%[2]s;", s.db.config.quoted(), table)
		}
		execute(t, s.db.config.conn.ConnString(), sql)
	}
	set("SET (autovacuum_enabled = off)")
	t.Cleanup(func() { set("RESET (autovacuum_enabled)") })
}

// analyze lets the server look at the tables.
func analyze(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range tables {
		execute(t, s.db.config.conn.ConnString(), "ANALYZE "+s.db.config.quoted()+"."+table)
	}
}

// fillKeys puts keys with one message each: some for later, of 1,000 tenants, and a few that
// are ready.
func fillKeys(t *testing.T, s *Store, later, ready int, queue, route string) {
	t.Helper()
	schema := s.db.config.quoted()
	partition := rows.PartitionOf(queue, route)
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(`
INSERT INTO %[1]s.keys (id, rev, lane, turn, at, first, seq, count, log_first, log_length, log_tag, queue, tenant, name, route)
SELECT md5(i::text)::uuid, 1, %[2]d, i %% 1000, t, t, 1, 1, 0, 0, 0, '%[3]s', int8send(i %% 1000), int8send(i), '%[4]s'
FROM (SELECT i, CASE WHEN i <= %[5]d THEN 1000 + i ELSE 99999999999999 - i END AS t FROM generate_series(1, %[6]d) i) x;
INSERT INTO %[1]s.messages (key, seq, visible, put, ttl, attempt, id, body)
SELECT id, 0, at, 1, 0, 0, 'a', 'body' FROM %[1]s.keys;
INSERT INTO %[1]s.tally (lane, queue, route, n) VALUES (%[2]d, '%[3]s', '%[4]s', %[6]d)`, schema, partition, queue, route, ready, later+ready))
}

// TestClaimsUseIndexes: what waits for later costs a claim nothing.
func TestClaimsUseIndexes(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			t.Parallel()
			s := open(t, unusedURL(t), Options{})
			fillKeys(t, s, 10, 10, "turns", "order")
			knownAsEmpty(t, s)
			fillKeys(t, s, 100_000, 500, "turns", "order")
			if known {
				analyze(t, s)
			}
			claimsUseIndexes(t, s)
		})
	}
}

func claimsUseIndexes(t *testing.T, s *Store) {
	partition := rows.PartitionOf("turns", "order")
	pick := func(name string, partitions, tenants []int64, most, maxPages int) {
		t.Helper()
		text := pickKeys
		if tenants != nil {
			text = pickLimited
		}
		p := &rows.LeaseRequest{Partitions: partitions, Tenants: tenants, Max: most, MaxMessages: 1000, Lease: 1000, Tokens: make([]string, most)}
		for i := range p.Tokens {
			p.Tokens[i] = fmt.Sprint(i)
		}
		p.Reserved = []rows.ID{rows.IDOf(store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"})}
		args := s.db.pickArgs(p, 0, 2*p.Max+window)
		for _, text := range []string{s.db.process, rows.ReservedFor(s.db.number)} {
			args[slices.Index(args, any(text))] = "'" + text + "'"
		}
		usesIndexes(t, name, explain(t, s, s.db.text.sql(text), args), maxPages)
	}
	pick("a pick of one", []int64{partition}, nil, 1, 5000)
	pick("a pick of 64", []int64{partition}, nil, 64, 10_000)
	pick("a pick of nothing", []int64{partition + 1}, nil, 64, 50)
	pick("a pick of one of a tenant", []int64{partition}, []int64{7}, 1, 100)
	pick("a pick of 64 of two tenants", []int64{partition}, []int64{7, 8}, 64, 200)
	pick("a pick of a tenant that has nothing ready", []int64{partition}, []int64{700}, 64, 50)
	pick("a pick of a tenant that has nothing", []int64{partition}, []int64{-1}, 64, 50)
	many := []int64{partition}
	for i := range int64(5000) {
		many = append(many, i)
	}
	pick("a pick from many lanes", many, nil, 64, 12_000)
	pick("a pick of a tenant from many lanes", many, []int64{7}, 64, 500)
	usesIndexes(t, "a look", explain(t, s, s.db.text.sql(nextDue), []any{0, []int64{partition, 1, 2}}), 50)
	usesIndexes(t, "a look for what has expired", explain(t, s, s.db.text.sql(findExpired), []any{0, rows.PartitionOf("turns", ""), 100}), 50)
	usesIndexes(t, "the statistics", explain(t, s, s.db.text.sql(readStats), []any{0, store.ReadyCap, "'none'"}), 3000)
}

// TestListsUseIndexes: a page costs what is on it, whatever else there is.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			t.Parallel()
			s := open(t, unusedURL(t), Options{})
			fillRecords(t, s, 100)
			knownAsEmpty(t, s)
			fillRecords(t, s, 100_000)
			if known {
				execute(t, s.db.config.conn.ConnString(), "VACUUM ANALYZE "+s.db.config.quoted()+".records")
			}
			listsUseIndexes(t, s)
		})
	}
}

func fillRecords(t *testing.T, s *Store, n int) {
	t.Helper()
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(`
INSERT INTO %[1]s.records (key, kind, tenant, id, version, time, status, name, tags, body)
SELECT md5(i::text)::uuid, 'instance', int8send(i %% 1000), int8send(i), 1, 1000 * i, CASE i %% 4 WHEN 0 THEN 'running' WHEN 1 THEN 'failed' ELSE 'completed' END::bytea,
	int8send(i %% 50), '{}', 'body'
FROM generate_series(1, %[2]d) i`, s.db.config.quoted(), n))
}

func listsUseIndexes(t *testing.T, s *Store) {
	tenant := string([]byte{0, 0, 0, 0, 0, 0, 0, 7})
	queries := map[string]store.Query{
		"all":                  {},
		"of a tenant":          {Tenant: &tenant},
		"of a status":          {Statuses: []string{"running"}},
		"of two statuses":      {Statuses: []string{"running", "failed"}},
		"of both":              {Tenant: &tenant, Statuses: []string{"completed"}},
		"of a time":            {From: time.UnixMilli(50_000_000), To: time.UnixMilli(51_000_000)},
		"of a time and status": {From: time.UnixMilli(50_000_000), To: time.UnixMilli(51_000_000), Statuses: []string{"running"}},
	}
	for name, q := range queries {
		for _, q.Descending = range []bool{false, true} {
			q.Kind = "instance"
			at, err := parseCursor(&q)
			if err != nil {
				t.Fatal(err)
			}
			sql, args := s.db.listText(&q, at)
			pages := 1200
			if !q.From.IsZero() {
				pages = 600 // and none of those before or after that time
			}
			usesIndexes(t, "a list "+name, explain(t, s, sql, append(args, 101, 100, store.PageBytes, true)), pages)
		}
		sql, args := s.db.countText(&q, 100)
		usesIndexes(t, "a count "+name, explain(t, s, sql, args), 600)
	}
}
