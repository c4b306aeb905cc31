package sqlitetools

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/sqlitestore"
)

// legacySchema is the older shape: a queue of timers beside that of orchestrations.
var legacySchema = []string{
	`CREATE TABLE instances (instance_id TEXT PRIMARY KEY, orchestration_name TEXT NOT NULL, orchestration_version TEXT NOT NULL,
current_execution_id INTEGER NOT NULL DEFAULT 1, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
	`CREATE TABLE executions (instance_id TEXT NOT NULL, execution_id INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'Running', output TEXT,
PRIMARY KEY (instance_id, execution_id))`,
	`CREATE TABLE history (instance_id TEXT NOT NULL, execution_id INTEGER NOT NULL, event_id INTEGER NOT NULL, event_type TEXT NOT NULL,
event_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (instance_id, execution_id, event_id))`,
	`CREATE TABLE orchestrator_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT NOT NULL, work_item TEXT NOT NULL,
visible_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, lock_token TEXT, locked_until TIMESTAMP, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
	`CREATE TABLE worker_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, work_item TEXT NOT NULL, lock_token TEXT, locked_until TIMESTAMP,
created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
	`CREATE TABLE timer_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, work_item TEXT NOT NULL, fire_at TIMESTAMP NOT NULL, lock_token TEXT,
locked_until TIMESTAMP, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
	`CREATE INDEX idx_orch_visible ON orchestrator_queue (visible_at, lock_token)`,
	`CREATE INDEX idx_timer_fire ON timer_queue (fire_at, lock_token)`,
	`CREATE INDEX idx_history_lookup ON history (instance_id, execution_id, event_id)`,
}

const (
	secondMS = int64(1000)
	hourMS   = 3600 * secondMS
)

// beginMS is the time at which the conversion happens.
var beginMS = begin.UnixMilli()

func timerItem(instance string, id int, fireAt int64) string {
	return fmt.Sprintf(`{"TimerSchedule":{"instance":%q,"execution_id":1,"id":%d,"fire_at_ms":%d}}`, instance, id, fireAt)
}

// makeLegacy makes a database of the older shape.
func makeLegacy(t *testing.T, path string) {
	t.Helper()
	insertTimer := func(item string, fireAt int64, lock string) string {
		return fmt.Sprintf(`INSERT INTO timer_queue (work_item, fire_at, lock_token, locked_until) VALUES ('%s', %d, %s)`, item, fireAt, lock)
	}
	insert := func(instance, item string, visibleAt int64) string {
		return fmt.Sprintf(`INSERT INTO orchestrator_queue (instance_id, work_item, visible_at) VALUES ('%s', '%s', %d)`, instance, item, visibleAt)
	}
	run(t, path, append(legacySchema,
		`INSERT INTO instances (instance_id, orchestration_name, orchestration_version) VALUES ('order-1', 'order', '1.0.0'), ('order-2', 'order', '1.0.0')`,
		`INSERT INTO executions (instance_id, execution_id) VALUES ('order-1', 1), ('order-2', 1)`,
		`INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data) VALUES
('order-1', 1, 1, 'OrchestrationStarted', '{"OrchestrationStarted":{"event_id":1,"name":"order","version":"1.0.0","input":"{}"}}'),
('order-1', 1, 3, 'TimerScheduled', '{"TimerScheduled":{"event_id":3,"fire_at_ms":1}}')`,
		insertTimer(timerItem("order-1", 3, beginMS+hourMS), beginMS+hourMS, "NULL, NULL"),
		insertTimer(timerItem("order-1", 2, beginMS+secondMS), beginMS+secondMS, "NULL, NULL"),
		insertTimer(timerItem("order-2", 5, beginMS-hourMS), beginMS-hourMS, "NULL, NULL"),
		insertTimer(timerItem("order-3", 1, beginMS+hourMS), beginMS+hourMS, fmt.Sprintf("'a lock', %d", beginMS+secondMS)),
		insertTimer("what is this", beginMS, "NULL, NULL"),
		insert("order-2", fmt.Sprintf(`{"TimerFired":{"instance":"order-2","execution_id":1,"id":7,"fire_at_ms":%d}}`, beginMS+2*hourMS), beginMS+2*hourMS),
		insert("order-2", `{"ExternalRaised":{"instance":"order-2","name":"approved","data":"{\"by\":\"an operator\"}"}}`, beginMS-secondMS),
		insert("order-4", `{"StartOrchestration":{"instance":"order-4","orchestration":"order","input":"{}"}}`, beginMS-secondMS),
		`INSERT INTO worker_queue (work_item) VALUES ('{"ActivityExecute":{"instance":"order-1","id":4,"name":"charge","input":"1"}}')`,
	)...)
}

func convertLegacy(t *testing.T, path string, clock base.Clock) Conversion {
	t.Helper()
	c, err := Convert(t.Context(), path, sqlitestore.Options{Clock: clock, Logger: quiet()}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// converted are the messages that the older file becomes: by instance, each with the time
// at which it is visible, from now, and what is in its body.
var converted = map[string][]struct {
	after int64
	body  []byte
}{
	"order-1": {
		{secondMS, eventBody("TimerFired", []byte(fmt.Sprintf(`{"instance":"order-1","execution_id":1,"id":2,"fire_at_ms":%d}`, beginMS+secondMS)))},
		{hourMS, eventBody("TimerFired", []byte(fmt.Sprintf(`{"instance":"order-1","execution_id":1,"id":3,"fire_at_ms":%d}`, beginMS+hourMS)))},
	},
	"order-2": {
		{0, eventBody("TimerFired", []byte(fmt.Sprintf(`{"instance":"order-2","execution_id":1,"id":5,"fire_at_ms":%d}`, beginMS-hourMS)))},
		{0, eventBody("approved", []byte(`{"by":"an operator"}`))},
		{2 * hourMS, eventBody("TimerFired", []byte(fmt.Sprintf(`{"instance":"order-2","execution_id":1,"id":7,"fire_at_ms":%d}`, beginMS+2*hourMS)))},
	},
	"order-3": {
		{hourMS, eventBody("TimerFired", []byte(fmt.Sprintf(`{"instance":"order-3","execution_id":1,"id":1,"fire_at_ms":%d}`, beginMS+hourMS)))},
	},
	"order-4": nil,
}

func isConverted(t *testing.T, s *sqlitestore.Store) {
	t.Helper()
	for instance, want := range converted {
		got, err := s.Pending(t.Context(), store.Key{Queue: "turns", Name: instance}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s has %d messages, want %d", instance, len(got), len(want))
		}
		for i, m := range got {
			if after := m.VisibleAt.UnixMilli() - beginMS; after != want[i].after || !bytes.Equal(m.Body, want[i].body) {
				t.Errorf("%s: message %d is visible after %d ms with %q, want %d with %q", instance, i, after, m.Body, want[i].after, want[i].body)
			}
		}
	}
	verifies(t, s)
}

func TestLegacy(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeLegacy(t, path)
	var log bytes.Buffer
	clock := base.NewManual(begin)
	run(t, path, "PRAGMA journal_mode = DELETE")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)

	// Neither Open nor a dry run changes anything.
	if _, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Clock: clock, Logger: quiet()}); !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "abide store convert sqlite://"+path) {
		t.Errorf("open: %v", err)
	}
	tried, err := Convert(t.Context(), path, sqlitestore.Options{Clock: clock, Logger: quiet()}, true)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(contents(t, path), before) {
		t.Error("a look has changed the file")
	}
	c1 := convertLegacy(t, path, clock)
	for _, c := range []Conversion{tried, c1} {
		if c.Converted != 6 || c.Left["timer_queue"] != 1 || c.Left["orchestrator_queue"] != 1 || !slices.Contains(c.Tables, "worker_queue") {
			t.Errorf("converted %+v", c)
		}
	}
	s := openStore(t, path, clock, slog.New(slog.NewTextHandler(&log, nil)))
	isConverted(t, s)

	// Nothing of the older tables is gone.
	for name, want := range map[string]string{
		"legacy_timer_queue": "5\n", "legacy_orchestrator_queue": "3\n", "legacy_worker_queue": "1\n", "legacy_history": "2\n", "legacy_instances": "2\n",
		"legacy_executions": "2\n",
	} {
		if got := table(t, path, "SELECT count(*) FROM "+name); got != want {
			t.Errorf("%s has %s rows, want %s", name, got, want)
		}
	}

	// It happens once.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	s = openStore(t, path, clock, slog.New(slog.NewTextHandler(&log, nil)))
	isConverted(t, s)
	if log.Len() > 0 {
		t.Errorf("opened again, it says %s", log.String())
	}

	// An instance that is started gets what was due, and the rest in time.
	key := store.Key{Queue: "turns", Name: "order-2"}
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "start", Route: "order"}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 0, 1} {
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 9, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for i := range claims {
			got += len(claims[i].Messages)
			if err := s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[i].Lease()}}}); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("claimed %d messages, want %d", got, want)
		}
		clock.Advance(time.Hour)
	}
}

// TestLegacyNobodyStarts: what is for an instance that nobody starts goes to quarantine a
// week after its time, and not before.
func TestLegacyNobodyStarts(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeLegacy(t, path)
	clock := base.NewManual(begin)
	s := openStore(t, path, clock, quiet())
	quarantined := func() int {
		t.Helper()
		if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 1, Lease: time.Minute}); err != nil {
			t.Fatal(err)
		}
		n, err := s.Count(t.Context(), store.Query{Kind: store.KindQuarantine}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	clock.Advance(store.DefaultTTL - time.Millisecond)
	if n := quarantined(); n != 0 {
		t.Errorf("%d are in quarantine before a week has passed", n)
	}
	clock.Advance(time.Millisecond)
	if n := quarantined(); n != 2 {
		t.Errorf("%d are in quarantine a week after they were due, want 2", n)
	}
	clock.Advance(2 * time.Hour)
	if n := quarantined(); n != 6 {
		t.Errorf("%d are in quarantine a week after all were due, want 6", n)
	}
}

// TestLegacyConvertedOnce: of several that convert the file at once, one does.
func TestLegacyConvertedOnce(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeLegacy(t, path)
	var wg sync.WaitGroup
	var did atomic.Int64
	for range 4 {
		wg.Go(func() {
			switch _, err := Convert(t.Context(), path, sqlitestore.Options{Clock: base.NewManual(begin), Logger: quiet()}, false); {
			case err == nil:
				did.Add(1)
			case !errors.Is(err, store.ErrInvalid):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if did.Load() != 1 {
		t.Errorf("converted %d times", did.Load())
	}
	isConverted(t, openStore(t, path, base.NewManual(begin), quiet()))
}

// pendingOf returns the messages of an instance.
func pendingOf(t *testing.T, s *sqlitestore.Store, instance string) []store.Message {
	t.Helper()
	got, err := s.Pending(t.Context(), store.Key{Queue: "turns", Name: instance}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLegacyMigrated converts a file whose timers were moved to the other queue.
func TestLegacyMigrated(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	makeLegacy(t, path)
	run(t, path,
		"DELETE FROM timer_queue WHERE work_item = 'what is this'",
		`INSERT INTO orchestrator_queue (instance_id, work_item, visible_at)
SELECT json_extract(work_item, '$.TimerSchedule.instance'), json_set(work_item, '$.TimerFired', json_extract(work_item, '$.TimerSchedule')), fire_at FROM timer_queue`,
		"DROP TABLE timer_queue")
	clock := base.NewManual(begin)
	if c := convertLegacy(t, path, clock); c.Converted != 6 || c.Left["orchestrator_queue"] != 1 {
		t.Errorf("converted %+v", c)
	}
	s := openStore(t, path, clock, quiet())
	got := pendingOf(t, s, "order-1")
	if len(got) != 2 || got[0].VisibleAt.UnixMilli() != beginMS+secondMS || got[1].VisibleAt.UnixMilli() != beginMS+hourMS || !bytes.Equal(got[0].Body, converted["order-1"][0].body) {
		t.Errorf("order-1 has %+v", got)
	}
	verifies(t, s)
}

// TestLegacyExecutionLog converts a file with a log of steps.
func TestLegacyExecutionLog(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	far := begin.AddDate(30, 0, 0)
	run(t, path,
		`CREATE TABLE execution_log (id TEXT NOT NULL, step INTEGER NOT NULL, timestamp INTEGER, class_name TEXT, method_name TEXT, status TEXT NOT NULL,
attempts INTEGER, parameters BLOB, return_value BLOB, timer_fire_at INTEGER, timer_name TEXT, PRIMARY KEY (id, step))`,
		fmt.Sprintf(`INSERT INTO execution_log (id, step, status, timer_fire_at, timer_name) VALUES
('flow-1', 0, 'COMPLETE', NULL, NULL), ('flow-1', 1, 'WAITING_FOR_TIMER', %d, 'shipping-delay'),
('flow-2', 3, 'WAITING_FOR_TIMER', %d, NULL), ('flow-3', 0, 'WAITING_FOR_SIGNAL', NULL, NULL), ('flow-4', 2, 'COMPLETE', %d, 'done'),
('flow-5', 1, 'WAITING_FOR_TIMER', %d, NULL)`, beginMS+hourMS, beginMS-hourMS, beginMS, far.UnixMilli()))
	clock := base.NewManual(begin)
	if c := convertLegacy(t, path, clock); c.Converted != 3 || c.Left["execution_log"] != 3 {
		t.Errorf("converted %+v", c)
	}
	s := openStore(t, path, clock, quiet())
	for instance, want := range map[string]struct {
		at      int64
		payload string
	}{
		"flow-1": {beginMS + hourMS, fmt.Sprintf(`{"instance":"flow-1","step":1,"timer_name":"shipping-delay","fire_at_ms":%d}`, beginMS+hourMS)},
		"flow-2": {beginMS, fmt.Sprintf(`{"instance":"flow-2","step":3,"timer_name":null,"fire_at_ms":%d}`, beginMS-hourMS)},
		"flow-5": {far.UnixMilli(), fmt.Sprintf(`{"instance":"flow-5","step":1,"timer_name":null,"fire_at_ms":%d}`, far.UnixMilli())},
	} {
		got := pendingOf(t, s, instance)
		if len(got) != 1 || got[0].VisibleAt.UnixMilli() != want.at || !bytes.Equal(got[0].Body, eventBody(eventFired, []byte(want.payload))) {
			t.Errorf("%s has %+v", instance, got)
		}
	}
	verifies(t, s)

	// A timer that is due in thirty years waits for a week after that.
	clock.Advance(far.Sub(begin) + store.DefaultTTL - time.Millisecond)
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 1, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if got := pendingOf(t, s, "flow-5"); len(got) != 1 {
		t.Error("a timer is in quarantine before its time")
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLegacyTimes: the time in the item counts, then that in the row, as a number or as
// text.
func TestLegacyTimes(t *testing.T) {
	t.Parallel()
	at := int64(1_800_000_000_123)
	for _, c := range []struct {
		item   *int64
		column any
		want   int64
	}{
		{&at, int64(5), at},
		{nil, at, at},
		{nil, "2027-01-15 08:00:00", 1_800_000_000_000},
		{nil, "2027-01-15 08:00:00.123", at},
		{nil, "2027-01-15T08:00:00.123Z", at},
		{nil, "soon", 0},
		{nil, nil, 0},
		{nil, int64(1) << 62, latest},
	} {
		if got := legacyTime(c.item, c.column); got != c.want {
			t.Errorf("%v, %v: %d, want %d", c.item, c.column, got, c.want)
		}
	}
}

// eventBody returns the body of a message that raises an event.
func eventBody(name string, payload []byte) []byte {
	return engine.EventMessage("", "", name, payload).Body
}

// TestEventBody compares the body that is made here with the example that the engine
// keeps of its own: but for the flag that it be dropped unless somebody waits for it.
func TestEventBody(t *testing.T) {
	t.Parallel()
	examples, err := os.ReadFile(filepath.Join("..", "..", "internal", "engine", "testdata", "format_1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(examples), "message event\n")
	if !ok {
		t.Fatal("there is no example of an event")
	}
	want, err := hex.DecodeString(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	const flags = 10
	if want[flags] != 1 {
		t.Fatalf("the flags of the example are %d", want[flags])
	}
	want[flags] = 0
	if got := eventBody("approved", []byte(strconv.Itoa(1))); !bytes.Equal(got, want) {
		t.Errorf("the body is\n%x, want\n%x", got, want)
	}
}
