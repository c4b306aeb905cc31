package sqlitestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
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
// Their histories are in other formats, and of code in another language, so that a timer that
// fires has no history to go on with here. But an event can be raised for an instance
// before there is one. So a pending timer becomes an event with the name TimerFired, raised
// for the instance of that ID and not visible before the timer's time; an orchestration that
// is started under the ID waits for it, and learns from its payload which timer it was.

// legacyPrefix is that of the names which the tables of an older design get.
const legacyPrefix = "legacy_"

// legacyColumns are those by which an older design is told from other databases that have
// a table of the same name.
var legacyColumns = map[string][]string{
	"timer_queue":        {"work_item", "fire_at"},
	"orchestrator_queue": {"instance_id", "work_item", "visible_at"},
	"execution_log":      {"id", "step", "status", "timer_fire_at", "timer_name"},
}

// isLegacy reports whether the tables are those of an older design.
func (c *conn) isLegacy(tables map[string]bool) (bool, error) {
	found := false
	for table, want := range legacyColumns {
		if !tables[table] {
			continue
		}
		have, err := c.columns(table)
		if err != nil {
			return false, err
		}
		for _, column := range want {
			if !slices.Contains(have, column) {
				return false, nil
			}
		}
		found = found || table != "timer_queue" // which is not there alone
	}
	return found, nil
}

// Conversion is what became of a file of an older design.
type Conversion struct {
	// Converted is the number of timers and events that wait now, and Left the number of
	// items in each table that have no counterpart.
	Converted int
	Left      map[string]int

	// Tables are those of the older design. They are kept, with the prefix legacy_.
	Tables []string

	dryRun bool
}

// Convert converts a file of an older design to a store: docs/sqlite.md says what becomes of
// what. It does so in one transaction: once, or not at all. With dryRun nothing is changed. It
// returns [store.ErrInvalid] if there is nothing to convert, and [store.ErrFormat] for a
// database of something else.
func Convert(ctx context.Context, path string, o Options, dryRun bool) (Conversion, error) {
	whole, err := resolve(path)
	if err == nil {
		_, err = os.Stat(whole)
	}
	if err != nil {
		return Conversion{}, fmt.Errorf("sqlitestore: convert %s: %w", path, err)
	}
	s := newStore(whole, o)
	s.conversion = &Conversion{Left: map[string]int{}, dryRun: dryRun}
	if err := errors.Join(s.open(ctx), s.closeFiles()); err != nil {
		return Conversion{}, fmt.Errorf("sqlitestore: convert %s: %w", whole, err)
	}
	return *s.conversion, nil
}

func (c *conn) columns(table string) (names []string, err error) {
	err = c.each("SELECT name FROM pragma_table_info(?)", func(s *sqlite.Stmt) error {
		names = append(names, s.ColumnText(0))
		return nil
	}, table)
	return names, err
}

// renameLegacy makes room for our tables and views. Nothing is dropped: what has no
// counterpart stays to be looked at.
func (c *conn) renameLegacy() (tables []string, err error) {
	if err := c.each("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name", func(s *sqlite.Stmt) error {
		tables = append(tables, s.ColumnText(0))
		return nil
	}); err != nil {
		return nil, err
	}
	for _, name := range tables {
		if err := c.once("ALTER TABLE " + quoteName(name) + " RENAME TO " + quoteName(legacyPrefix+name)); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// quoteName returns a name as SQL has it.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// legacyItem is an item of one of the tables of an older design that is an event here.
type legacyItem struct {
	id       string // of the message
	instance string
	event    string
	payload  []byte
	at       int64
}

// legacyWork is what is known of the items that become events.
type legacyWork struct {
	Instance string `json:"instance"`
	FireAt   *int64 `json:"fire_at_ms"`
	Name     string `json:"name"`
	Data     string `json:"data"`
}

// eventFired is the name of the event that a timer becomes.
const eventFired = "TimerFired"

// parseLegacy returns the event that an item is, or false if it has no counterpart.
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
				e.payload = quoted(work.Data)
			}
		default:
			return legacyItem{}, false
		}
		e.at = max(e.at, now) // what is overdue is visible at once
		return e, len(e.payload) <= store.MaxBody/2
	}
	return legacyItem{}, false
}

// legacyTime returns a time in milliseconds: that in the item if there is one, or that in
// the row, which is a number, or text as SQLite writes it. What is neither is now.
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

// convert makes messages of what waits in a file of an older design, whose tables have been
// renamed. It runs in the transaction that makes ours, which is what makes it happen exactly
// once, even if the process is killed.
func (s *Store) convert() error {
	now, c := s.now(), s.conversion
	c.Converted, c.Left = 0, map[string]int{}
	var items []legacyItem
	for _, queue := range []struct{ table, query string }{
		{"timer_queue", "SELECT rowid, work_item, fire_at"},
		{"orchestrator_queue", "SELECT rowid, work_item, visible_at"},
		{"execution_log", "SELECT rowid, " + executionLogItem + ", timer_fire_at"},
	} {
		if !slices.Contains(c.Tables, queue.table) {
			continue
		}
		err := s.writer.each(queue.query+" FROM "+quoteName(legacyPrefix+queue.table)+" ORDER BY rowid", func(st *sqlite.Stmt) error {
			var at any
			switch st.ColumnType(2) {
			case sqlite.TypeInteger, sqlite.TypeFloat:
				at = st.ColumnInt64(2)
			case sqlite.TypeText:
				at = st.ColumnText(2)
			default:
			}
			if item, ok := parseLegacy(queue.table, st.ColumnInt64(0), st.ColumnText(1), at, now); ok {
				items = append(items, item)
			} else {
				c.Left[queue.table]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(items, func(a, b legacyItem) int { return cmp.Compare(a.at, b.at) })
	c.Converted = len(items)
	return s.writer.insertLegacy(items, now)
}

// executionLogItem is a row of the log of steps as an item of a queue has it. A row that does
// not wait for a timer is none.
const executionLogItem = `CASE WHEN status = 'WAITING_FOR_TIMER' AND timer_fire_at IS NOT NULL THEN
json_object('TimerFired', json_object('instance', CAST(id AS TEXT), 'step', step, 'timer_name', timer_name, 'fire_at_ms', timer_fire_at)) END`

// insertLegacy puts the messages, in their order, into tables that are empty.
func (c *conn) insertLegacy(items []legacyItem, now int64) error {
	nums := map[string]int{}
	var order []*rows.KeyRow
	for i := range items {
		num, ok := nums[items[i].instance]
		if !ok {
			key := store.Key{Queue: legacyQueue, Name: items[i].instance}
			order = append(order, &rows.KeyRow{ID: rows.IDOf(key), Key: key, First: rows.Never})
			num = len(order)
			nums[key.Name] = num
		}
		row := order[num-1]
		m := items[i].message(row, now)
		if err := c.insertMessage(int64(num), m); err != nil {
			return err
		}
		row.Seq++
		row.Count++
		row.First = min(row.First, m.Expires())
	}
	for i, row := range order {
		if err := c.insertKey(int64(i)+1, row); err != nil {
			return err
		}
	}
	return c.addTally(legacyQueue, "", len(items))
}

// legacyQueue is that of the engine's turns.
const legacyQueue = "turns"

// message returns the message that an item becomes: an event for an instance, which waits
// until there is one. If none has been started a week after its time, it goes to
// quarantine, where somebody sees it.
func (e *legacyItem) message(row *rows.KeyRow, now int64) *rows.MessageRow {
	ttl := min(e.at-now+store.DefaultTTL.Milliseconds(), time.Duration(math.MaxInt64).Milliseconds())
	return &rows.MessageRow{Key: row.ID, Seq: row.Seq, ID: e.id, Visible: e.at, Put: now, TTL: ttl, Body: eventBody(e.event, e.payload)}
}

// eventBody returns the body of a message that raises an event, as docs/format.md and
// internal/history/history.proto describe it. A store does not know what is in a body;
// this is the one place where somebody has to, because nobody else sees the older file.
func eventBody(name string, payload []byte) []byte {
	const (
		format       = 1
		kindEvents   = 2
		received     = 16 // the kind of the event
		fieldKind    = 2 << 3
		fieldName    = 4<<3 | 2
		fieldPayload = 7<<3 | 2
	)
	event := []byte{format, fieldKind, received, fieldName}
	event = appendBytes(event, []byte(name))
	if len(payload) > 0 {
		event = append(event, fieldPayload)
		event = appendBytes(event, payload)
	}
	body := []byte{format, kindEvents}
	body = append(body, make([]byte, 8)...) // for whichever execution there is
	body = append(body, 0, 0)               // no flags, no reason
	return appendBytes(body, event)
}

func appendBytes(b, more []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(more)))
	return append(b, more...)
}
