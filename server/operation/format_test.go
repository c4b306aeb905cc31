package operation

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// example is an operation in which all that can be is.
func example() Operation {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return Operation{
		ID: "o", under: "acme", Kind: Restart, Status: Failed, Reason: "why", By: "who", Error: "no", Version: 7,
		Filter: abide.Filter{
			Tenant: new("acme"), Orchestrations: []string{"order", "bill"}, Statuses: []abide.Status{abide.Completed},
			From: at.Add(-time.Hour), To: at, Tags: map[string]string{"b": "2", "a": "1"},
		},
		CreatedAt: at, BegunAt: at.Add(1e6), EndedAt: at.Add(3e6), UpdatedAt: at.Add(2e6),
		Total: 1000, Matched: 6, Done: 3, Skipped: 2, Failed: 1,
		Errors: []Failure{{abide.Ref{Tenant: "acme", ID: "i"}, "oh"}}, pages: 4, cursor: "next",
	}
}

// golden is the body of the example's record. A store has such bytes: they are read for ever.
const golden = "01010461636d6502056f726465720462696c6c0109636f6d706c6574656480b7b8c8ca33809494caca3302016101310162013200" +
	"037768790377686f026e6f809494caca33819494caca33839494caca33829494caca33e8070603020104010461636d650169026f68046e657874"

func TestFormat(t *testing.T) {
	t.Parallel()
	o := example()
	rec := o.record()
	if got := hex.EncodeToString(rec.Body); got != golden {
		t.Errorf("the body is\n%s\nwant\n%s", got, golden)
	}
	if rec.Key != (store.RecordKey{Kind: "operation", Tenant: "acme", ID: "o"}) || rec.Status != "failed" || rec.Name != "restart" || rec.Tags["tenant"] != "acme" || !rec.Time.Equal(o.CreatedAt) {
		t.Errorf("the record is %+v", rec)
	}
	rec.Version = 7
	back, err := parseRecord(rec)
	if err != nil || !reflect.DeepEqual(back, o) {
		t.Errorf("it comes back as\n%+v, %v\nwant\n%+v", back, err, o)
	}
	o.Filter.Prefix, o.Filter.Parent = "order-", "batch-1"
	rec = o.record()
	rec.Version = 7
	if back, err = parseRecord(rec); err != nil || !reflect.DeepEqual(back, o) {
		t.Errorf("with a prefix and a parent it comes back as\n%+v, %v\nwant\n%+v", back, err, o)
	}
	small := Operation{ID: "o", Kind: Cancel, Status: Pending, All: true, CreatedAt: o.CreatedAt, UpdatedAt: o.CreatedAt}
	if back, err = parseRecord(small.record()); err != nil || !reflect.DeepEqual(back, small) {
		t.Errorf("a small one comes back as\n%+v, %v\nwant\n%+v", back, err, small)
	}
	if len(small.record().Tags) != 0 {
		t.Errorf("one about all tenants has the tags %v", small.record().Tags)
	}
}

// TestGarbageIsSaid: whatever the bytes, there is an error and no panic.
func TestGarbageIsSaid(t *testing.T) {
	t.Parallel()
	o := example()
	rec := o.record()
	whole := rec.Body
	for n := range whole {
		rec.Body = whole[:n]
		if _, err := parseRecord(rec); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
	for _, bad := range [][]byte{append([]byte{2}, whole[1:]...), append([]byte(nil), append(whole, 0)...), {1, 7}} {
		rec.Body = bad
		if _, err := parseRecord(rec); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}
