package store_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

var quarantineTime = time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)

func TestQuarantineKeepsTheWholeMessage(t *testing.T) {
	t.Parallel()
	hostile := "\x00\xff\xfe/\"'\\\n\u2028é" + string([]byte{0xc3, 0x28})
	for _, tc := range []struct {
		name string
		m    store.Message
	}{
		{"plain", store.Message{
			Key: store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}, ID: "start", Route: "order/1",
			TTL: time.Hour, Attempt: 5, PutAt: quarantineTime.Add(-time.Minute), Body: []byte(`{"a":1}`),
		}},
		{"hostile bytes everywhere", store.Message{
			Key: store.Key{Queue: "turns", Tenant: hostile, Name: hostile}, ID: hostile, Route: hostile,
			Attempt: 1, PutAt: quarantineTime, Body: []byte(hostile),
		}},
		{"a queue that is not valid UTF-8", store.Message{
			Key: store.Key{Queue: "turns\xff", Name: "order-1"}, ID: "start", Route: "r", PutAt: quarantineTime, Body: []byte("x"),
		}},
		{"nothing that may be empty is set", store.Message{
			Key: store.Key{Queue: "q", Name: "k"}, ID: "m", PutAt: quarantineTime,
		}},
		{"as large as a message can be", store.Message{
			Key: store.Key{Queue: strings.Repeat("q", store.MaxQueue), Tenant: strings.Repeat("t", store.MaxName), Name: strings.Repeat("k", store.MaxName)},
			ID:  strings.Repeat("m", store.MaxName), Route: strings.Repeat("r", store.MaxName),
			TTL: store.MaxTTL, Attempt: 1 << 30, PutAt: quarantineTime, Body: bytes.Repeat([]byte{0xff}, store.MaxBody),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			put := store.Quarantine(tc.m, tc.m.Route, store.ReasonAttempts, quarantineTime)
			if err := (&store.Tx{PutRecords: []store.PutRecord{put}}).Validate(); err != nil {
				t.Fatalf("a quarantine record is not a valid record: %v", err)
			}
			got, err := store.Quarantined(put.Record)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Body, tc.m.Body) {
				t.Errorf("body of %d bytes came back as %d other bytes", len(tc.m.Body), len(got.Body))
			}
			got.Body, tc.m.Body = nil, nil
			if !reflect.DeepEqual(got, tc.m) {
				t.Errorf("came back as %+v, want %+v", got, tc.m)
			}
		})
	}
}

func TestQuarantineRecordCanBeFoundByWhatItIs(t *testing.T) {
	t.Parallel()
	m := store.Message{Key: store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}, ID: "start", Route: "of the message"}
	put := store.Quarantine(m, "order/1", "poison", quarantineTime)
	r := put.Record
	if put.Expect != store.AnyVersion {
		t.Errorf("expects version %d, want AnyVersion", put.Expect)
	}
	if r.Key.Kind != store.KindQuarantine || r.Key.Tenant != "acme" || r.Name != "turns" || r.Status != "poison" {
		t.Errorf("key %v, name %q, status %q: want kind quarantine, the tenant, the queue and the reason", r.Key, r.Name, r.Status)
	}
	if !r.Time.Equal(quarantineTime) {
		t.Errorf("time %v, want %v", r.Time, quarantineTime)
	}
	want := map[string]string{store.TagKey: "order-1", store.TagMessage: "start", store.TagRoute: "order/1"}
	if !reflect.DeepEqual(r.Tags, want) {
		t.Errorf("tags %v, want %v", r.Tags, want)
	}
	if got, err := store.Quarantined(r); err != nil || got.Route != "order/1" {
		t.Errorf("route %q, %v; want that of the key", got.Route, err)
	}
}

func TestQuarantineIDsAreDifferentForDifferentMessages(t *testing.T) {
	t.Parallel()
	message := func(queue, name, id string) store.Message {
		return store.Message{Key: store.Key{Queue: queue, Tenant: "t", Name: name}, ID: id}
	}
	base := message("q", "k", "m")
	first := store.Quarantine(base, "r", store.ReasonAttempts, quarantineTime).Record.Key
	if again := store.Quarantine(base, "r", store.ReasonAttempts, quarantineTime).Record.Key; again != first {
		t.Errorf("the same message at the same time is %v and %v", first, again)
	}
	later := store.Quarantine(base, "r", store.ReasonAttempts, quarantineTime.Add(time.Millisecond)).Record.Key
	if later == first {
		t.Error("a message that fails again later replaces its past self")
	}
	if later.ID < first.ID {
		t.Errorf("the later ID %q sorts before the earlier one %q", later.ID, first.ID)
	}
	for _, pair := range [][2]store.Message{
		{base, message("q", "k", "m2")},
		{base, message("q", "k2", "m")},
		{base, message("q2", "k", "m")},
		{message("q", "ab", "c"), message("q", "a", "bc")},
		{message("q", "a\x00b", "c"), message("q", "a", "b\x00c")},
		{message("q\x00a", "b", "c"), message("q", "a\x00b", "c")},
	} {
		a := store.Quarantine(pair[0], "", store.ReasonAttempts, quarantineTime).Record.Key
		b := store.Quarantine(pair[1], "", store.ReasonAttempts, quarantineTime).Record.Key
		if a == b {
			t.Errorf("messages %v and %v share a quarantine record", pair[0].Ref(), pair[1].Ref())
		}
	}
}

func TestQuarantinedRefusesWhatIsNotAQuarantinedMessage(t *testing.T) {
	t.Parallel()
	key := store.RecordKey{Kind: store.KindQuarantine, Tenant: "t", ID: "x"}
	for _, tc := range []struct {
		name   string
		record store.Record
		want   error
		says   string
	}{
		{"another kind", store.Record{Key: store.RecordKey{Kind: "instance", Tenant: "t", ID: "x"}, Body: []byte("{}")}, store.ErrInvalid, "instance/t/x"},
		{"an empty body", store.Record{Key: key}, store.ErrCorrupt, "quarantine/t/x"},
		{"a body that is cut off", store.Record{Key: key, Body: []byte(`{"queue":"q","na`)}, store.ErrCorrupt, "quarantine/t/x"},
		{"a body with a wrong type", store.Record{Key: key, Body: []byte(`{"queue":7}`)}, store.ErrCorrupt, "quarantine/t/x"},
		{"a body with broken base64", store.Record{Key: key, Body: []byte(`{"name":"*"}`)}, store.ErrCorrupt, "quarantine/t/x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := store.Quarantined(tc.record); !errors.Is(err, tc.want) {
				t.Errorf("Quarantined: %v, want %v", err, tc.want)
			}
			tx, err := store.Redrive(tc.record)
			if tx != nil || !errors.Is(err, tc.want) {
				t.Fatalf("Redrive: %v, %v; want %v", tx, err, tc.want)
			}
			wantText(t, err, tc.says)
		})
	}
}

func TestRedrivePutsTheMessageAndDeletesTheRecordAtItsVersion(t *testing.T) {
	t.Parallel()
	m := store.Message{
		Key: store.Key{Queue: "q", Tenant: "t", Name: "k"}, ID: "m", TTL: time.Minute,
		Attempt: 3, PutAt: quarantineTime, Body: []byte("body"),
	}
	r := store.Quarantine(m, "r", store.ReasonAttempts, quarantineTime).Record
	r.Version = 4
	tx, err := store.Redrive(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Validate(); err != nil {
		t.Errorf("the Tx is not valid: %v", err)
	}
	want := []store.DeleteRecord{{Key: r.Key, Expect: 4}}
	if !reflect.DeepEqual(tx.DeleteRecords, want) {
		t.Errorf("deletes %v, want %v", tx.DeleteRecords, want)
	}
	if len(tx.Put) != 1 {
		t.Fatalf("puts %d messages, want 1", len(tx.Put))
	}
	got := tx.Put[0]
	if got.Ref() != m.Ref() || got.Route != "r" || got.TTL != m.TTL || string(got.Body) != "body" || !got.VisibleAt.IsZero() {
		t.Errorf("puts %+v, want %v with its route, TTL and body, visible at once", got, m.Ref())
	}
}
