package pebblestore

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

var (
	goldenKey    = store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	goldenRecord = store.Record{
		Key:    store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"},
		Status: "running", Name: "order", Time: time.UnixMilli(1_800_000_000_000),
		Tags: map[string]string{"region": "eu", "colour": "green"}, Body: []byte("record"),
	}
	goldenPos  = pos{due: 1_800_000_000_123, seq: 77}
	goldenMsg  = msgData{attempt: 3, putMS: 1_800_000_000_000, ttlMS: 60_000, body: []byte("message")}
	goldenHead = header{log: 42, base: 7, tag: 1<<63 + 5, route: "order@1"}
	goldenHide = msgData{putMS: 1_800_000_000_000, hidden: true, visibleMS: 1_800_000_000_500, body: []byte("early")}
)

// goldenLines returns an example of everything that is written, in hex.
func goldenLines() []byte {
	var b bytes.Buffer
	line := func(name string, bytes []byte) { fmt.Fprintf(&b, "%-16s %x\n", name, bytes) }
	l := &partition{queue: &queue{name: "turns"}, tenant: "acme", route: "order@1", count: 12}
	line("format", []byte(strconv.Itoa(formatVersion)))
	line("meta format", metaFormat)
	line("meta oldest", metaOldest)
	line("meta shared", metaShared)
	line("meta terms", metaTerms)
	line("meta ids", metaIDs)
	line("partition key", partitionKey(nil, 5))
	line("partition", appendPartition(nil, l, goldenPos))
	line("header key", headerKey(nil, goldenKey))
	line("header", appendHeader(nil, goldenHead))
	line("pending key", pendingKey(nil, goldenKey, "start"))
	line("pending", appendPending(nil, 5, goldenPos))
	line("message key", msgKey(nil, 5, goldenPos))
	line("message", appendMsg(nil, "order-1", "start", &goldenMsg))
	line("message hidden", appendMsg(nil, "order-1", "event", &goldenHide))
	line("log key", logKey(nil, 42, 300))
	line("log", appendEntries(nil, [][]byte{[]byte("one"), {}, []byte("three")}))
	line("name key", nameKey(nil, goldenRecord.Key))
	line("record key", recordKey(nil, 99))
	line("record", appendRecord(nil, &goldenRecord, 4, goldenRecord.Time.UnixMilli()))
	line("index key", indexKey(nil, goldenRecord.Key, "running", goldenRecord.Time.UnixMilli(), 99))
	line("shared index key", sharedIndexKey(nil, goldenRecord.Key, "running", goldenRecord.Time.UnixMilli(), 99))
	line("term key", termKey(nil, goldenRecord.Key.Kind, termOf("region", "eu"), goldenRecord.Time.UnixMilli(), 99))
	line("attempts", appendJournalEntry(nil, location{5, goldenPos}, 3))
	return b.Bytes()
}

// TestFormatDoesNotChange fails when a byte of what is on disk would be another. A
// change needs a new format version, and code that reads the old one.
func TestFormatDoesNotChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", fmt.Sprintf("format_%d.txt", formatVersion))
	check.Golden(t, file, string(goldenLines()))
}

func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, d := range []msgData{goldenMsg, goldenHide} {
		name, id, got, err := parseMsg(nil, appendMsg(nil, "order-1", "start", &d))
		if err != nil || name != "order-1" || id != "start" || !reflect.DeepEqual(got, d) {
			t.Errorf("message: %q %q %+v %v", name, id, got, err)
		}
	}
	if got := parseMsgKey(msgKey(nil, 5, goldenPos)); got != goldenPos {
		t.Errorf("message key: %v", got)
	}
	partition, p, err := parsePending(nil, appendPending(nil, 5, goldenPos))
	if err != nil || partition != 5 || p != goldenPos {
		t.Errorf("pending: %v %v %v", partition, p, err)
	}
	if head, err := parseHeader(nil, appendHeader(nil, goldenHead)); err != nil || head != goldenHead {
		t.Errorf("header: %+v %v", head, err)
	}
	got, err := parseRecord(nil, appendRecord(nil, &goldenRecord, 4, goldenRecord.Time.UnixMilli()))
	want := goldenRecord
	want.Version, want.Time = 4, want.Time.UTC()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("record: %+v %v", got, err)
	}
}

func TestSplitTellsTheNamesOfAKey(t *testing.T) {
	t.Parallel()
	prefix := keyPrefix(nil, goldenKey)
	for _, k := range [][]byte{prefix, headerKey(nil, goldenKey), pendingKey(nil, goldenKey, "start"), pendingKey(nil, goldenKey, "\x00\xff")} {
		if n := split(k); n != len(prefix) {
			t.Errorf("split(%x) is %d, want %d", k, n, len(prefix))
		}
	}
	for _, k := range [][]byte{nil, {tagKey}, {tagKey, 200}, prefix[:len(prefix)-1], msgKey(nil, 1, goldenPos)} {
		if n := split(k); n != len(k) {
			t.Errorf("split(%x) is %d, want all %d", k, n, len(k))
		}
	}
}

// FuzzParse shows that no value, however broken, makes the store panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendMsg(nil, "order-1", "start", &goldenMsg))
	f.Add(appendRecord(nil, &goldenRecord, 4, 5))
	f.Add(appendEntries(nil, [][]byte{[]byte("one")}))
	f.Add(appendHeader(nil, goldenHead))
	f.Fuzz(func(t *testing.T, v []byte) {
		_, _, d, err := parseMsg(nil, v)
		if err == nil && len(d.body) > len(v) {
			t.Error("a body is longer than its value")
		}
		_, _ = parseRecord(nil, v)
		_, _, _ = parsePending(nil, v)
		_, _ = parseHeader(nil, v)
		total := 0
		if err := parseEntries(nil, v, func(_ int, e []byte) bool { total += len(e); return true }); err == nil && total > len(v) {
			t.Error("entries are longer than their value")
		}
		if n := split(v); n > len(v) {
			t.Errorf("split is %d of %d", n, len(v))
		}
	})
}
