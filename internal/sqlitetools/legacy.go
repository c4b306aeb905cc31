package sqlitetools

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/sqlitestore"
)

// Older designs kept timers in tables of three shapes:
//
//   - a queue of timers, timer_queue, beside that of orchestrations, orchestrator_queue;
//   - orchestrator_queue alone, with timers as items that are visible later;
//   - a log of steps, execution_log, with rows that wait for a timer.
//
// Items of the queues are JSON, an object with one field, which is named by what the item is;
// a timer that was moved from one queue to the other has two, TimerSchedule and TimerFired:
//
//	{"TimerSchedule": {"instance": "order-1", "execution_id": 1, "id": 3, "fire_at_ms": 1735689600000}}
//
// Their histories have other formats and belong to code in another language, so that they cannot
// be continued here. But an event can be raised for an instance that does not exist yet. So a
// pending timer becomes an event TimerFired for the instance with the same ID, not visible before
// the time of the timer; an orchestration that is started under that ID waits for the event, and
// its payload says which timer it was.

// legacyColumns are those by which an older design is told from other databases that have
// a table of the same name.
var legacyColumns = map[string][]string{
	"timer_queue":        {"work_item", "fire_at"},
	"orchestrator_queue": {"instance_id", "work_item", "visible_at"},
	"execution_log":      {"id", "step", "status", "timer_fire_at", "timer_name"},
}

// foreign is the older designs.
var foreign = sqlitestore.Foreign{
	Recognize: isLegacy,
	Read: func(t sqlitestore.ForeignTables, now time.Time) ([]store.Message, error) {
		return (&Conversion{}).read(t, now)
	},
}

// isLegacy reports whether the tables are those of an older design.
func isLegacy(tables map[string][]string) bool {
	found := false
	for table, want := range legacyColumns {
		have, ok := tables[table]
		if !ok {
			continue
		}
		for _, column := range want {
			if !slices.Contains(have, column) {
				return false
			}
		}
		found = found || table != "timer_queue" // which is not there alone
	}
	return found
}

// Conversion is the result of converting a file of an older design.
type Conversion struct {
	// Converted is the number of timers and events that are pending now, and Left the number
	// of items in each table that have no counterpart.
	Converted int
	Left      map[string]int

	// Tables are those of the older design. They are kept, with the prefix legacy_.
	Tables []string
}

// Convert converts a file of an older design to a store: docs/sqlite.md says what becomes of
// what. It does so in one transaction: once, or not at all. With dryRun nothing is changed. It
// returns [store.ErrInvalid] if there is nothing to convert, and [store.ErrFormat] for a
// database of another design.
func Convert(ctx context.Context, path string, o sqlitestore.Options, dryRun bool) (Conversion, error) {
	var c Conversion
	tables, err := sqlitestore.Convert(ctx, path, o, &sqlitestore.Foreign{Recognize: isLegacy, Read: c.read}, dryRun)
	if err != nil {
		return Conversion{}, err
	}
	c.Tables = tables
	return c, nil
}

// read returns the messages of the items of an older design, in the order of their times.
func (c *Conversion) read(t sqlitestore.ForeignTables, now time.Time) ([]store.Message, error) {
	c.Left = map[string]int{}
	var items []legacyItem
	for _, queue := range []struct{ table, query string }{
		{"timer_queue", "SELECT rowid, work_item, fire_at"},
		{"orchestrator_queue", "SELECT rowid, work_item, visible_at"},
		{"execution_log", "SELECT rowid, " + executionLogItem + ", timer_fire_at"},
	} {
		if !slices.Contains(t.Names, queue.table) {
			continue
		}
		err := t.Each(queue.query+" FROM "+sqlitestore.ForeignPrefix+queue.table+" ORDER BY rowid", func(values []any) error {
			row, _ := values[0].(int64)
			work, _ := values[1].(string)
			if item, ok := parseLegacy(queue.table, row, work, values[2], now.UnixMilli()); ok {
				items = append(items, item)
			} else {
				c.Left[queue.table]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(items, func(a, b legacyItem) int { return cmp.Compare(a.at, b.at) })
	c.Converted = len(items)
	messages := make([]store.Message, 0, len(items))
	for i := range items {
		messages = append(messages, items[i].message(now.UnixMilli()))
	}
	return messages, nil
}

// legacyItem is an item of a table of an older design that becomes an event.
type legacyItem struct {
	id       string // of the message
	instance string
	event    string
	payload  []byte
	at       int64
}

// legacyWork is the JSON of the items that become events.
type legacyWork struct {
	Instance string `json:"instance"`
	FireAt   *int64 `json:"fire_at_ms"`
	Name     string `json:"name"`
	Data     string `json:"data"`
}

// eventFired is the name of the event that a timer becomes.
const eventFired = "TimerFired"

// parseLegacy returns the event that an item becomes, or false if it has no counterpart.
func parseLegacy(queue string, row int64, item string, column any, now int64) (legacyItem, bool) {
	var byKind map[string]json.RawMessage
	if json.Unmarshal([]byte(item), &byKind) != nil {
		return legacyItem{}, false
	}
	if byKind["TimerFired"] != nil {
		delete(byKind, "TimerSchedule") // of which it was made
	}
	if len(byKind) != 1 {
		return legacyItem{}, false
	}
	for kind, raw := range byKind {
		var work legacyWork
		if json.Unmarshal(raw, &work) != nil || work.Instance == "" || len(work.Instance) > store.MaxName {
			return legacyItem{}, false
		}
		e := legacyItem{id: "legacy/" + queue + "/" + strconv.FormatInt(row, 10), instance: work.Instance}
		switch {
		case kind == "TimerSchedule", kind == "TimerFired":
			e.event, e.payload, e.at = eventFired, raw, legacyTime(work.FireAt, column)
		case (kind == "ExternalRaised" || kind == "EventRaised") && work.Name != "" && len(work.Name) <= store.MaxName:
			e.event, e.payload, e.at = work.Name, []byte(work.Data), legacyTime(nil, column)
			if !json.Valid(e.payload) {
				e.payload, _ = json.Marshal(work.Data) // a string always marshals
			}
		default:
			return legacyItem{}, false
		}
		e.at = max(e.at, now) // what is overdue is visible at once
		return e, len(e.payload) <= store.MaxBody/2
	}
	return legacyItem{}, false
}

// legacyTime returns a time in milliseconds: that of the item if it has one, or that of the row,
// which is a number, or text in a format of SQLite. Anything else is 0, which is overdue.
func legacyTime(item *int64, column any) int64 {
	if item != nil {
		return min(*item, latest)
	}
	switch v := column.(type) {
	case int64:
		return min(v, latest)
	case string:
		for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.RFC3339Nano} {
			if t, err := time.Parse(layout, v); err == nil {
				return min(store.Millis(t), latest)
			}
		}
	}
	return 0
}

// latest is the last millisecond that a time may have.
var latest = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()

// executionLogItem is a row of the log of steps as an item of a queue has it. A row that does
// not wait for a timer is none.
const executionLogItem = `CASE WHEN status = 'WAITING_FOR_TIMER' AND timer_fire_at IS NOT NULL THEN
json_object('TimerFired', json_object('instance', CAST(id AS TEXT), 'step', step, 'timer_name', timer_name, 'fire_at_ms', timer_fire_at)) END`

// message returns the message that an item becomes: an event for an instance, which waits until
// there is one. If none has been started a week after its time, it goes to quarantine.
func (e *legacyItem) message(now int64) store.Message {
	m := engine.EventMessage(e.instance, e.id, e.event, e.payload)
	m.VisibleAt = store.FromMillis(e.at)
	m.TTL = time.Duration(min(e.at-now+store.DefaultTTL.Milliseconds(), time.Duration(math.MaxInt64).Milliseconds())) * time.Millisecond
	return m
}
