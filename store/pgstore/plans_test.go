package pgstore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// anyPlan returns the plan of a statement that is made for any parameters.
func anyPlan(t *testing.T, s *Store, sql string) string {
	t.Helper()
	params := 0
	for _, p := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(sql, -1) {
		var n int
		if _, err := fmt.Sscan(p[1], &n); err != nil {
			t.Fatal(err)
		}
		params = max(params, n)
	}
	values := make([]any, params)
	for i := range values {
		values[i] = "NULL"
	}
	return explainWith(t, s, "COSTS on", sql, values)
}

// wholeScans returns the lines of a plan that read a whole table: those that have no
// condition for the index.
func wholeScans(plan string) (found []string) {
	lines := strings.Split(plan, "\n")
	scan := regexp.MustCompile(`(Seq Scan|Index Scan|Index Only Scan|Bitmap Heap Scan).* on (keys|messages|entries|records)`)
	for i, line := range lines {
		if !scan.MatchString(line) {
			continue
		}
		depth := len(line) - len(strings.TrimLeft(line, " "))
		cond := false
		for _, next := range lines[i+1:] {
			if strings.Contains(next, "->") || len(next)-len(strings.TrimLeft(next, " ")) <= depth {
				break
			}
			cond = cond || strings.Contains(next, "Index Cond")
		}
		if !cond {
			found = append(found, line)
		}
	}
	return found
}

// indexOfMessages is where statements look up single messages of a key that may have many.
var indexOfMessages = map[string]string{
	"loadMessages":   "messages_id",
	"removeMessages": "messages_pkey",
	"countMessages":  "messages_pkey",
	"moveMessages":   "messages_pkey",
	"pickKeys":       "messages_pkey",
	"pickLimited":    "messages_pkey",
}

// TestPlansWhateverIsThere: plans are made for what the server knows of a table at the
// moment, and kept. Whatever that is, no statement of a commit or a claim may read more of
// a table than it asks for: a table that was empty when it was looked at is full a moment
// later.
func TestPlansWhateverIsThere(t *testing.T) {
	t.Parallel()
	states := map[string]func(*testing.T, *Store){
		"new": func(*testing.T, *Store) {},
		"full": func(t *testing.T, s *Store) {
			fillKeys(t, s, 5_000, 500, "turns", "order")
			fillRecords(t, s, 500)
			analyze(t, s)
		},
		"one row": func(t *testing.T, s *Store) {
			fillKeys(t, s, 0, 1, "turns", "order")
			fillRecords(t, s, 1)
			analyze(t, s)
		},
		"emptied": func(t *testing.T, s *Store) {
			fillKeys(t, s, 10, 10, "turns", "order")
			fillRecords(t, s, 100)
			knownAsEmpty(t, s)
		},
	}
	for name, fill := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, unusedURL(t), Options{})
			fill(t, s)
			for name, template := range templates {
				plan := anyPlan(t, s, s.db.text.sql(template))
				if index := indexOfMessages[name]; !regexp.MustCompile(`using `+index+` on messages.*\n.*Index Cond: .*(seq|id) [>=]`).MatchString(plan) && index != "" {
					t.Errorf("%s: does not look up messages in %s\n%s", name, index, plan)
				}
				for _, line := range wholeScans(plan) {
					t.Errorf("%s: %s\n%s", name, strings.TrimSpace(line), plan)
				}
			}
		})
	}
}
