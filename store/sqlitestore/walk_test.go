package sqlitestore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// TestManyMessages does the same to a key with many messages here and in the model: those
// beyond the first few are found by indexes.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	clock := base.NewManual(begin)
	s := openWith(t, newPath(t), clock, quiet())
	model := memstore.New(memstore.Options{Clock: clock})
	defer model.Close() //nolint:errcheck // it is in memory
	key := store.Key{Queue: "q", Tenant: "acme", Name: "k"}
	var leases [2][]store.Lease
	both := func(do func(s store.Store, leases *[]store.Lease) any) {
		t.Helper()
		got, want := do(s, &leases[0]), do(model, &leases[1])
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	commit := func(tx *store.Tx) {
		t.Helper()
		both(func(s store.Store, _ *[]store.Lease) any { return s.Commit(t.Context(), tx) })
	}
	some := func() string { return "m" + strconv.Itoa(rnd.IntN(150)) }
	soon := func() time.Time { return clock.Now().Add(time.Duration(rnd.IntN(20)) * time.Millisecond) }
	for step := range 300 {
		tx := &store.Tx{}
		for range rnd.IntN(12) {
			tx.Put = append(tx.Put, store.Message{Key: key, ID: some(), Route: "r", VisibleAt: soon(), Body: []byte(strconv.Itoa(step))})
		}
		for range rnd.IntN(4) {
			tx.Retime = append(tx.Retime, store.Retime{Ref: store.MessageRef{Key: key, ID: some()}, VisibleAt: soon()})
		}
		for range rnd.IntN(3) {
			tx.Delete = append(tx.Delete, store.MessageRef{Key: key, ID: some()})
		}
		commit(tx)
		limit := 1 + rnd.IntN(20)
		both(func(s store.Store, held *[]store.Lease) any {
			claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, MaxMessages: limit, Lease: time.Second})
			var ids []string
			for i := range claims {
				*held = append(*held, claims[i].Lease())
				for _, m := range claims[i].Messages {
					ids = append(ids, fmt.Sprint(m.ID, m.Attempt, m.VisibleAt, string(m.Body)))
				}
			}
			return fmt.Sprint(ids, err)
		})
		how := rnd.IntN(4)
		both(func(s store.Store, held *[]store.Lease) any {
			var errs []string
			for _, l := range *held {
				var err error
				switch how {
				case 0:
					continue
				case 1:
					err = s.Release(t.Context(), store.Release{Lease: l, After: 3 * time.Millisecond})
				default:
					err = s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: l}}})
				}
				errs = append(errs, fmt.Sprint(err))
			}
			if how > 0 {
				*held = nil
			}
			return errs
		})
		both(func(s store.Store, _ *[]store.Lease) any {
			m, err := s.Pending(t.Context(), key, 0)
			stats, err2 := s.Stats(t.Context())
			return fmt.Sprint(m, err, stats.Routes, stats.Leases, err2)
		})
		clock.Advance(time.Duration(rnd.IntN(6)) * time.Millisecond)
		if rnd.IntN(20) == 0 {
			clock.Advance(time.Second) // leases end
		}
	}
	verifies(t, s)
}

// TestTenantsTakeTurns: however many keys of a tenant are ready, those of others are among
// the next few, also where there are too many to look at all.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(begin)
	s := openWith(t, newPath(t), clock, quiet())
	tx := &store.Tx{}
	add := func(tenant, name, route string, at time.Time) {
		tx.Put = append(tx.Put, store.Message{Key: store.Key{Queue: "q", Tenant: tenant, Name: name}, ID: "m", Route: route, VisibleAt: at})
	}
	commit := func() {
		t.Helper()
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		tx = &store.Tx{}
		clock.Advance(time.Minute)
	}
	for i := range 600 {
		add("large", "k"+strconv.Itoa(i), "r"+strconv.Itoa(i%2), time.Time{})
		add("future-"+strconv.Itoa(i), "k", "r0", begin.Add(time.Hour))
	}
	commit()
	for i := range 3 {
		add("small", "k"+strconv.Itoa(i), "r0", time.Time{})
		add("other", "k"+strconv.Itoa(i), "r1", time.Time{})
	}
	commit()
	counts := map[string]int{}
	for range 9 {
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r0", "r1"}, Max: 1, Lease: time.Hour})
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		counts[claims[0].Key.Tenant]++
	}
	if counts["small"] != 3 || counts["other"] != 3 || counts["large"] != 3 {
		t.Errorf("of 9 claims each tenant should have had 3: %v", counts)
	}
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r0", "r1"}, Max: 1000, Lease: time.Hour})
	if err != nil || len(claims) == 0 {
		t.Fatal(err)
	}
	left := 597 - len(claims)
	for left > 0 {
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r0", "r1"}, Max: 50, Lease: time.Hour})
		if err != nil || len(claims) == 0 {
			t.Fatalf("claimed %d, and %d are left: %v", len(claims), left, err)
		}
		left -= len(claims)
	}
	if left < 0 {
		t.Errorf("claimed %d more than there are", -left)
	}
}

// TestManyStrands lists and counts records of so many tenants and statuses that they
// cannot all be walked along at once.
func TestManyStrands(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(begin)
	s := openWith(t, newPath(t), clock, quiet())
	model := memstore.New(memstore.Options{Clock: clock})
	defer model.Close() //nolint:errcheck // it is in memory
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	tx := &store.Tx{}
	for i := range 3000 {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
			Key:    store.RecordKey{Kind: "order", Tenant: "t" + strconv.Itoa(rnd.IntN(500)), ID: strconv.Itoa(i)},
			Status: "s" + strconv.Itoa(min(rnd.IntN(40), rnd.IntN(400))), Name: "n" + strconv.Itoa(rnd.IntN(3)),
			Time: begin.Add(time.Duration(i) * time.Second), Tags: map[string]string{"even": strconv.FormatBool(i%2 == 0)},
		}})
	}
	for _, to := range []store.Store{s, model} {
		if err := to.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	tenant := "t7"
	statuses := []string{"s1", "s2", "s2", "s3", "none"}
	for _, q := range []store.Query{
		{}, {Tenant: &tenant}, {Statuses: statuses}, {Statuses: statuses[:1]}, {Tenant: &tenant, Statuses: statuses},
		{From: begin.Add(100 * time.Second), To: begin.Add(2000 * time.Second)},
		{Statuses: statuses, From: begin.Add(100 * time.Second), To: begin.Add(2000*time.Second + time.Microsecond)},
		{Names: []string{"n1"}}, {Statuses: statuses, Names: []string{"n1", "n2"}, Tags: map[string]string{"even": "true"}},
	} {
		q.Kind = "order"
		for _, limit := range []int{1, 70, 100_000} {
			got, err := s.Count(t.Context(), q, limit)
			want, _ := model.Count(t.Context(), q, limit)
			if got != want || err != nil {
				t.Errorf("%+v: counted %d up to %d, want %d: %v", q, got, limit, want, err)
			}
		}
		for _, q.Descending = range []bool{false, true} {
			q.Limit = 97
			if got, want := walkList(t, s, q), walkList(t, model, q); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %d records, want %d, or another order", q, len(got), len(want))
			}
		}
	}
}

func walkList(t *testing.T, s store.Store, q store.Query) (ids []string) {
	t.Helper()
	for pages := 0; ; pages++ {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			ids = append(ids, r.Key.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" || pages > 1000 {
			return ids
		}
	}
}

// TestListPassesOver: a query that few records match continues with the next page instead of
// taking long for one.
func TestListPassesOver(t *testing.T) {
	t.Parallel()
	s := openWith(t, newPath(t), base.NewManual(begin), quiet())
	tx := &store.Tx{}
	for i := range maxPassed + 10 {
		name := "common"
		if i == maxPassed+5 {
			name = "rare"
		}
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "order", ID: fmt.Sprintf("%06d", i)}, Name: name}})
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	q := store.Query{Kind: "order", Names: []string{"rare"}}
	page, err := s.List(t.Context(), q)
	if err != nil || len(page.Records) != 0 || page.Next == "" {
		t.Fatalf("the first page has %d records and the cursor %q: %v", len(page.Records), page.Next, err)
	}
	q.Cursor = page.Next
	if page, err = s.List(t.Context(), q); err != nil || len(page.Records) != 1 || page.Next != "" {
		t.Errorf("the second page has %d records and the cursor %q: %v", len(page.Records), page.Next, err)
	}
}

// TestIndexes: what is done often uses an index for all that it looks for.
func TestIndexes(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	openAt(t, path)
	byTime, byStatus := `SELECT time, num FROM records INDEXED BY records_time WHERE kind = ?`,
		`SELECT time, num FROM records INDEXED BY records_status WHERE kind = ? AND status = ? AND tenant = ?`
	for query, want := range map[string]string{
		byTime + sameUp:       "(kind=? AND time=? AND rowid>?)",
		byTime + beyondUp:     "(kind=? AND time>? AND time<?)",
		byStatus + sameDown:   "(kind=? AND status=? AND tenant=? AND time=? AND rowid<?)",
		byStatus + beyondDown: "(kind=? AND status=? AND tenant=? AND time>? AND time<?)",
		nextStatus:            "(kind=? AND status>?)",
		nextTenant:            "(kind=? AND status=? AND tenant>?)",
		readyInPartition:      "COVERING INDEX keys_due (lane=? AND first<?)",
		readyOfTenant:         "COVERING INDEX keys_turn (lane=? AND turn=? AND first<?)",
		nextTenantIn:          "COVERING INDEX keys_turn (lane=? AND turn>? AND turn<?)",
		firstOfTenant:         "COVERING INDEX keys_turn (lane=? AND turn=?)",
		firstEnd:              "INDEX keys_leased (lane=?)",
		endedInPartition:      "INDEX keys_leased (lane=? AND until<?)",
		expiredInRows:         "INDEX keys_due (lane=? AND first<?)",
		expired:               "INDEX keys_due (lane=? AND first<?)",
	} {
		got := table(t, path, "EXPLAIN QUERY PLAN "+query)
		if !strings.Contains(got, want) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s:\n%swant %s", query, got, want)
		}
		if program := table(t, path, "EXPLAIN "+query); strings.Contains(want, "<?") && !endsByParameter(program) {
			t.Errorf("%s: continues beyond what is asked for:\n%s", query, program)
		}
	}
}

// endsByParameter reports whether a program that walks along an index ends where a
// parameter says, or begins there if it walks backward: the plan shows that there is a
// bound, and not which of two it is. What it looks up for each row comes after that.
func endsByParameter(program string) bool {
	set := map[string]string{} // what registers were set by
	var bounds []string
	for line := range strings.Lines(program) {
		op := strings.Split(strings.TrimSpace(line), "|") // address, opcode, p1, p2, p3, p4, …
		switch op[1] {
		case "Variable", "Int64", "Integer":
			set[op[3]] = op[1]
		case "SCopy", "Copy":
			set[op[3]] = set[op[2]]
		case "IdxGT", "IdxGE", "SeekLT", "SeekLE":
			first, _ := strconv.Atoi(op[4])
			n, _ := strconv.Atoi(op[5])
			bounds = append(bounds, strconv.Itoa(first+n-1))
		}
	}
	return len(bounds) > 0 && set[bounds[0]] == "Variable"
}

// TestFormatOne: a file of format 1 becomes one of this format, with all that is in it.
func TestFormatOne(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s, err := Open(t.Context(), path, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: store.Key{Queue: "q", Name: "k"}, ID: "m", Route: "r"}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, path, "DROP INDEX keys_due", "DROP INDEX keys_turn",
		"CREATE INDEX keys_due ON keys (lane, first, turn, token) WHERE token IS NULL AND first < 9223372036854775807",
		"CREATE INDEX keys_turn ON keys (lane, turn, first, token) WHERE token IS NULL AND first < 9223372036854775807",
		"UPDATE meta SET value = 1 WHERE name = 'format'")
	for range 2 { // the second time there is nothing to do
		s := openAt(t, path)
		verifies(t, s)
		if got, want := table(t, path, "SELECT value FROM meta WHERE name = 'format'"), "2\n"; got != want {
			t.Errorf("the format is %s, want %s", got, want)
		}
		got := table(t, path, "SELECT sql FROM sqlite_master WHERE name IN ('keys_due', 'keys_turn') ORDER BY name")
		if want := keysDue + "\n" + keysTurn + "\n"; got != want {
			t.Errorf("the indexes are\n%swant\n%s", got, want)
		}
	}
	claims, err := openAt(t, path).Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second})
	if err != nil || len(claims) != 1 {
		t.Errorf("claimed %v, %v", claims, err)
	}
}
