package transfer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// problems returns what a check finds.
func problems(t *testing.T, s store.Portable) (found []transfer.Problem, checked transfer.Checked) {
	t.Helper()
	c := transfer.Check{Store: s, Report: func(p transfer.Problem) { found = append(found, p) }}
	checked, err := c.Run(t.Context())
	check.OK(t, err)
	return found, checked
}

// one is the body of something of which only the format counts.
var one = []byte{1}

func record(kind, id, status string, body []byte) store.PutRecord {
	return store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: kind, Tenant: "acme", ID: id}, Status: status, Body: body}, Expect: store.AnyVersion}
}

func noTenant(p store.PutRecord) store.PutRecord {
	p.Record.Key.Tenant = ""
	return p
}

func key(queue, name string) store.Key { return store.Key{Queue: queue, Tenant: "acme", Name: name} }

func message(queue, name, id string, body []byte) store.Message {
	return store.Message{Key: key(queue, name), ID: id, Route: "r", Body: body, VisibleAt: time.Now().Add(time.Hour)}
}

func log(queue, name string, n int) store.Append {
	a := store.Append{Key: key(queue, name)}
	for range n {
		a.Entries = append(a.Entries, one)
	}
	return a
}

func task(instance string) []byte { return wire.AppendString([]byte{1}, instance) }

// quarantined puts a message of a key into quarantine.
func quarantined(queue, name string) store.PutRecord {
	return store.Quarantine(message(queue, name, "m", one), "r", store.ReasonAttempts, time.Now())
}

// theAction is the body of an action whose message was put with version 37, which is 11 in
// base 36.
var theAction = wire.AppendNumber([]byte{1}, 37)

// auditOf is the body of the record of an audit log with n entries.
func auditOf(n uint64) []byte {
	return wire.AppendNumber(wire.AppendTime([]byte{1}, time.Now()), n)
}

var (
	theSchedule  = []byte(`{"format":1}`)
	auditLog     = store.Append{Key: store.Key{Queue: "audit", Name: "a"}, Entries: [][]byte{one, one}}
	theOperation = noTenant(record("operation", "o", "running", one))
	operationGo  = store.Message{Key: store.Key{Queue: "operations", Name: "o"}, ID: "run", Route: "operation", Body: one}
)

// broken is a rule with what breaks it, and next to it what keeps it.
type broken struct {
	rule  string
	found string // a part of what is reported
	bad   store.Tx
	good  []store.Tx
}

// TestRules breaks each rule, and sees it reported, and it alone.
func TestRules(t *testing.T) {
	t.Parallel()
	breakRules(t, []broken{
		{
			"every history has the record of its instance", "turns/acme/order-1 has a history of 3 events, and no record",
			store.Tx{Append: []store.Append{log("turns", "order-1", 3)}},
			[]store.Tx{
				{Append: []store.Append{log("turns", "order-1", 3)}, PutRecords: []store.PutRecord{record("instance", "order-1", "running", one)}},
				{Put: []store.Message{message("turns", "order-1", "an event that came before its instance", one)}},
			},
		},
		{
			"every instance that has not ended has a history, or a message that starts it", "instance/acme/order-1 is running",
			store.Tx{PutRecords: []store.PutRecord{record("instance", "order-1", "running", one)}},
			[]store.Tx{
				{PutRecords: []store.PutRecord{record("instance", "order-1", "pending", one)}, Put: []store.Message{message("turns", "order-1", "start", one)}},
				{PutRecords: []store.PutRecord{record("instance", "order-1", "pending", one), quarantined("turns", "order-1")}},
				{PutRecords: []store.PutRecord{record("instance", "order-1", "completed", one)}},
			},
		},
		{
			"every task has the instance that asked for it", `is for instance "order-1"`,
			store.Tx{Put: []store.Message{message("activities", "order-1/x/1", "task", task("order-1"))}},
			[]store.Tx{{
				Put:        []store.Message{message("activities", "order-1/x/1", "task", task("order-1"))},
				PutRecords: []store.PutRecord{record("instance", "order-1", "completed", one)},
			}},
		},
		{
			"every task has the instance that asked for it", "message activities/acme/x#task cannot be read",
			store.Tx{Put: []store.Message{message("activities", "x", "task", []byte{1, 9})}}, nil,
		},
		{
			"every armed timer has the message that fires it", "timer/acme/t is armed with version 1",
			store.Tx{PutRecords: []store.PutRecord{record("timer", "t", "armed", one)}},
			[]store.Tx{
				{PutRecords: []store.PutRecord{record("timer", "t", "armed", one)}, Put: []store.Message{message("timers", "t", "1.abcdef", one)}},
				{PutRecords: []store.PutRecord{record("timer", "t", "armed", one), quarantined("timers", "t")}},
				{PutRecords: []store.PutRecord{record("timer", "t", "fired", one)}},
			},
		},
		{
			"every message that fires a timer has the timer, armed", "is of a timer that is not there",
			store.Tx{Put: []store.Message{message("timers", "t", "1.abcdef", one)}}, nil,
		},
		{
			"every message that fires a timer has the timer, armed", "is of a timer that is fired, with version 1",
			store.Tx{Put: []store.Message{message("timers", "t", "1.abcdef", one)}, PutRecords: []store.PutRecord{record("timer", "t", "fired", one)}}, nil,
		},
		{
			"every message that fires a timer has the timer, armed", "is of a timer that is armed, with version 1",
			store.Tx{
				Put:        []store.Message{message("timers", "t", "2.abcdef", one), message("timers", "t", "1.abcdef", one)},
				PutRecords: []store.PutRecord{record("timer", "t", "armed", one)},
			}, nil,
		},
		{
			"every action that has not ended has the message that runs it", `action/acme/a is pending, and its message "11" is not there`,
			store.Tx{PutRecords: []store.PutRecord{record("action", "a", "pending", theAction)}},
			[]store.Tx{
				{PutRecords: []store.PutRecord{record("action", "a", "running", theAction)}, Put: []store.Message{message("actions", "a", "11", one)}},
				{PutRecords: []store.PutRecord{record("action", "a", "pending", theAction), quarantined("actions", "a")}},
				{PutRecords: []store.PutRecord{record("action", "a", "failed", theAction)}},
			},
		},
		{
			"every action that has not ended has the message that runs it", `action/acme/a is running`,
			store.Tx{PutRecords: []store.PutRecord{record("action", "a", "running", theAction)}, Put: []store.Message{message("actions", "a", "12", one)}}, nil,
		},
		{
			"every action that has not ended has the message that runs it", "action action/acme/a cannot be read",
			store.Tx{PutRecords: []store.PutRecord{record("action", "a", "running", one)}}, nil,
		},
		{
			"every message that runs an action has the action, which has not ended", "is of an action that is not there",
			store.Tx{Put: []store.Message{message("actions", "a", "11", one)}}, nil,
		},
		{
			"every message that runs an action has the action, which has not ended", "is of an action that is completed",
			store.Tx{Put: []store.Message{message("actions", "a", "11", one)}, PutRecords: []store.PutRecord{record("action", "a", "completed", theAction)}}, nil,
		},
		{
			"every body of a webhook that is kept has its action", "action.body/acme/a",
			store.Tx{PutRecords: []store.PutRecord{record("action.body", "a", "", []byte("raw"))}},
			[]store.Tx{{PutRecords: []store.PutRecord{record("action.body", "a", "", nil), record("action", "a", "failed", theAction)}}},
		},
		{
			"every active schedule has the message for its next run", `schedule/acme/s is active, and its message "next-1" is not there`,
			store.Tx{PutRecords: []store.PutRecord{record("schedule", "s", "active", theSchedule)}, Put: []store.Message{message("schedules", "s", "ended-a", nil)}},
			[]store.Tx{
				{PutRecords: []store.PutRecord{record("schedule", "s", "active", theSchedule)}, Put: []store.Message{message("schedules", "s", "next-1", nil)}},
				{PutRecords: []store.PutRecord{record("schedule", "s", "paused", theSchedule)}},
			},
		},
		{
			"every operation has the message that goes on with it, or removes it", "operation//o is running",
			store.Tx{PutRecords: []store.PutRecord{theOperation}},
			[]store.Tx{
				{PutRecords: []store.PutRecord{theOperation}, Put: []store.Message{operationGo}},
				{PutRecords: []store.PutRecord{record("operation", "o", "running", one)}, Put: []store.Message{message("operations", "o", "run", one)}},
			},
		},
		{
			"every message to an operation has the operation", "is of an operation that is not there",
			store.Tx{Put: []store.Message{operationGo}}, nil,
		},
		{
			"every audit log has its record", "audit//a has 2 entries, and no record",
			store.Tx{Append: []store.Append{auditLog}},
			[]store.Tx{{Append: []store.Append{auditLog}, PutRecords: []store.PutRecord{noTenant(record("audit", "a", "", auditOf(2)))}}},
		},
		{
			"every record of an audit log has the log", "says that its log has 3 entries, and it has 2",
			store.Tx{Append: []store.Append{auditLog}, PutRecords: []store.PutRecord{noTenant(record("audit", "a", "", auditOf(3)))}}, nil,
		},
		{
			"every record of an audit log has the log", "record audit//a cannot be read",
			store.Tx{PutRecords: []store.PutRecord{noTenant(record("audit", "a", "", one))}}, nil,
		},
		{
			"every message in quarantine can be read", "quarantine/acme/q",
			store.Tx{PutRecords: []store.PutRecord{record(store.KindQuarantine, "q", "attempts", []byte("{"))}},
			[]store.Tx{{PutRecords: []store.PutRecord{quarantined("turns", "order-1")}}},
		},
		{
			"the store is not the target of an unfinished copy", "a copy into it was begun",
			store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.CopyMark, Body: theSchedule}}}}, nil,
		},
		{
			"every record and every message has a format that this release reads", "record worker/acme/w: it has format 2",
			store.Tx{PutRecords: []store.PutRecord{record("worker", "w", "", []byte{2})}},
			[]store.Tx{{PutRecords: []store.PutRecord{record("worker", "w", "", one), record("heartbeat", "h", "", nil)}}},
		},
		{
			"every record and every message has a format that this release reads", "record token/acme/t: it is empty",
			store.Tx{PutRecords: []store.PutRecord{record("token", "t", "", nil)}}, nil,
		},
		{
			"every record and every message has a format that this release reads", "record schedule/acme/s: it has format 7",
			store.Tx{PutRecords: []store.PutRecord{record("schedule", "s", "paused", []byte(`{"format":7}`))}}, nil,
		},
		{
			"every record and every message has a format that this release reads", "record schedule/acme/s: it is not JSON",
			store.Tx{PutRecords: []store.PutRecord{record("schedule", "s", "paused", one)}}, nil,
		},
		{
			"every record and every message has a format that this release reads", "message outbox/acme/o#e: it has format 9",
			store.Tx{Put: []store.Message{message("outbox", "o", "e", []byte{9})}},
			[]store.Tx{{Put: []store.Message{message("outbox", "o", "e", one), message("commands", "c", "m", []byte("{"))}}},
		},
	})
}

func breakRules(t *testing.T, cases []broken) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule+": "+c.found, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			commit(t, s, &c.bad)
			found, _ := problems(t, s)
			if len(found) != 1 || found[0].Rule != c.rule || !strings.Contains(found[0].Found, c.found) {
				t.Errorf("found %q", found)
			}
			for i := range c.good {
				s := newStore(t)
				commit(t, s, &c.good[i])
				if found, checked := problems(t, s); len(found) > 0 || checked.Unknown > 0 {
					t.Errorf("found %q in what keeps the rule, and %d unknown", found, checked.Unknown)
				}
			}
		})
	}
}

// TestRulesOfTheContract breaks what a store cannot be made to break: a backend that does
// is found out all the same.
func TestRulesOfTheContract(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, found string
		edit        func(p *store.Parcel)
	}{
		{"every key comes once", "key turns/acme/order-1 comes twice", func(p *store.Parcel) { p.Keys = append(p.Keys, p.Keys[0]) }},
		{
			"a log has all entries from the first that was not trimmed to its length", "has length 3, and its entries end at 2",
			func(p *store.Parcel) { p.Entries[0].Entries = p.Entries[0].Entries[:2] },
		},
		{
			"a log has all entries from the first that was not trimmed to its length", "has 2 entries from 1 on, and should go on at 0 and end at 3",
			func(p *store.Parcel) { p.Entries[0].At, p.Entries[0].Entries = 1, p.Entries[0].Entries[1:] },
		},
		{
			"a log has all entries from the first that was not trimmed to its length", "has length 3, and 4 entries of it are trimmed",
			func(p *store.Parcel) { p.Keys[0].LogFirst, p.Entries = 4, nil },
		},
		{
			"every message has its key, and the route that its key has", "message turns/acme/order-1#m has route",
			func(p *store.Parcel) { p.Messages[0].Route = "other" },
		},
		{
			"every message has its key, and the route that its key has", "message turns/acme/order-2#m is of a key that is not there",
			func(p *store.Parcel) { p.Messages[0].Key.Name = "order-2" },
		},
	} {
		t.Run(c.found, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			commit(t, s, &store.Tx{
				Append: []store.Append{log("turns", "order-1", 3)}, Put: []store.Message{message("turns", "order-1", "m", one)},
				PutRecords: []store.PutRecord{record("instance", "order-1", "running", one)},
			})
			if found, _ := problems(t, s); len(found) > 0 {
				t.Fatalf("found %q before", found)
			}
			found, _ := problems(t, edited{Portable: s, exported: c.edit})
			if len(found) != 1 || found[0].Rule != c.rule || !strings.Contains(found[0].Found, c.found) {
				t.Errorf("found %q", found)
			}
		})
	}
}

func TestWhatIsNotOfThisReleaseIsCountedAndNoProblem(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	commit(t, s, &store.Tx{
		Put:        []store.Message{message("mine", "k", "m", nil)},
		PutRecords: []store.PutRecord{record("mine", "r", "", nil), record("worker", "w", "", one)},
	})
	found, checked := problems(t, s)
	if len(found) > 0 || checked.Unknown != 2 || checked.Records != 2 || checked.Messages != 1 || checked.Keys != 1 || checked.Tenants != 1 {
		t.Errorf("found %q, %+v", found, checked)
	}
}

// grumbling is a store that finds something wrong with itself.
type grumbling struct{ store.Portable }

func (grumbling) Verify(_ context.Context, report func(string)) error {
	report("an index is wrong")
	return nil
}

func TestWhatABackendFindsIsReported(t *testing.T) {
	t.Parallel()
	found, _ := problems(t, grumbling{newStore(t)})
	if len(found) != 1 || found[0] != (transfer.Problem{Rule: "the tables of the backend agree with each other", Found: "an index is wrong"}) {
		t.Errorf("found %q", found)
	}
}
