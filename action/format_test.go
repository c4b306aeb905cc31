package action

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// exampleActions has something in each field, between them.
func exampleActions() map[string]Action {
	webhook := Action{
		ID: "delivery-1", Tenant: "acme", Slug: "shop", Target: "deploy", Status: Running,
		Trigger: Trigger{Kind: Webhook, At: noon, Header: map[string]string{"X-Event": "push", "Content-Type": "x/y"}, Size: 300},
		Attempt: 2, RetryAt: noon.Add(time.Minute), CreatedAt: noon, UpdatedAt: noon.Add(2 * time.Minute), StartedAt: noon.Add(2 * time.Minute),
		Version: 300, message: 299, claim: "token-1",
	}
	failed := webhook
	failed.Status, failed.claim, failed.Reason, failed.EndedAt = Failed, "", "exit status 1", noon.Add(time.Hour)
	failed.Outcome = Outcome{ExitCode: -1, Duration: 1234567, Output: "oh dear\n", Cut: 1 << 40}
	scheduled := Action{
		ID: "a", Tenant: "acme", Slug: "shop", Target: "deploy", Status: Pending, Payload: []byte(`{"n": 1}`), Idempotent: true,
		Trigger: Trigger{Kind: Scheduled, At: noon.Add(time.Hour)}, Schedule: "nightly", RunAt: noon.Add(-time.Hour), tells: true,
		CreatedAt: noon, UpdatedAt: noon, Version: 1, message: 1,
	}
	return map[string]Action{
		"webhook": webhook, "failed": failed, "scheduled": scheduled,
		"bare": {ID: "b", Tenant: "t", Slug: "s", Target: "t", Status: Pending, Trigger: Trigger{Kind: Scheduled, At: noon}, CreatedAt: noon, UpdatedAt: noon, Version: 1, message: 1},
	}
}

// exampleSchedule has something in each field.
func exampleSchedule() Schedule {
	return Schedule{
		Plan: Plan{
			Tenant: "acme", Slug: "shop", Target: "deploy", Payload: []byte(`{"n":1}`), Idempotent: true, ID: "nightly",
			Cron: "30 2 * * *", Every: time.Hour, Zone: "Europe/Berlin", Gap: GapSkip, Fold: FoldBoth, Jitter: time.Minute,
			Overlap: OverlapQueue, CatchUp: CatchUpAll, Window: time.Hour, Cap: 7, From: noon, Until: noon.Add(time.Hour), Count: 9,
		},
		Status: Paused, Reason: "holidays", PausedAt: noon, Next: noon.Add(time.Minute), NextJitter: time.Second, Last: noon,
		Runs: 8, Current: "a", Queued: noon, CreatedAt: noon, UpdatedAt: noon, Version: 300,
	}
}

// TestFormatIsGolden: a byte that changes makes what is on disk unreadable.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	lines := map[string]string{}
	for name, example := range exampleActions() {
		lines["record "+name] = hex.EncodeToString(example.record().Body)
		lines["message "+name] = hex.EncodeToString(example.toMessage([]byte("body")).Body)
	}
	s := exampleSchedule()
	record, err := s.record()
	check.OK(t, err)
	lines["schedule"] = string(record.Body)
	check.GoldenTable(t, "testdata/format_1.txt", lines)
}

// TestNamesInTheStoreAreGolden: with another name, nothing that is there would be found.
func TestNamesInTheStoreAreGolden(t *testing.T) {
	t.Parallel()
	a := exampleActions()["webhook"]
	check.Equal(t, "the record", a.record().Key, (store.RecordKey{Kind: "action", Tenant: "acme", ID: "delivery-1"}))
	if r := a.record(); r.Status != "running" || r.Name != "shop" || !r.Time.Equal(a.StartedAt) {
		t.Errorf("the record is listed by %s, %s, %v", r.Status, r.Name, r.Time)
	}
	check.Equal(t, "the body", a.bodyRecord(nil).Record.Key, (store.RecordKey{Kind: "action.body", Tenant: "acme", ID: "delivery-1"}))
	m := a.toMessage(nil)
	want := store.MessageRef{Key: store.Key{Queue: "actions", Tenant: "acme", Name: "delivery-1"}, ID: "8c"}
	if m.Ref() != want || m.Route != "deploy" || !m.VisibleAt.Equal(a.RetryAt) {
		t.Errorf("the message is %v by route %s at %v, want %v", m.Ref(), m.Route, m.VisibleAt, want)
	}
	s := exampleSchedule()
	record, err := s.record()
	if wantKey := (store.RecordKey{Kind: "schedule", Tenant: "acme", ID: "nightly"}); err != nil || record.Key != wantKey {
		t.Errorf("the schedule is %v, %v, want %v", record.Key, err, wantKey)
	}
	m = s.toMessage()
	want = store.MessageRef{Key: store.Key{Queue: "schedules", Tenant: "acme", Name: "nightly"}, ID: "next-8c"}
	if m.Ref() != want || m.Route != "schedule" || !m.VisibleAt.Equal(noon.Add(61*time.Second)) {
		t.Errorf("the schedule's message is %v by route %s at %v, want %v", m.Ref(), m.Route, m.VisibleAt, want)
	}
	a = exampleActions()["scheduled"]
	told := a.tellSchedule()
	want.ID = "ended-a"
	if len(told) != 1 || told[0].Ref() != want || told[0].Route != "schedule" {
		t.Errorf("the schedule is told by %+v, want %v", told, want)
	}
}

// TestFormatIsReadAsWritten: what is parsed is what was written.
func TestFormatIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for name, want := range exampleActions() {
		rec := want.record()
		rec.Version = want.Version
		if got, err := parseRecord(rec); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("record %s:\ngot  %+v, %v\nwant %+v", name, got, err, want)
		}
		for _, body := range []string{"", "\x00body\xff"} {
			m := want.toMessage([]byte(body))
			got, gotBody, err := parseMessage(&m)
			pending := want
			pending.Status = Pending // as whatever has a message
			if err != nil || !reflect.DeepEqual(got, pending) || string(gotBody) != body {
				t.Errorf("message %s:\ngot  %+v, %q, %v\nwant %+v", name, got, gotBody, err, pending)
			}
		}
	}
	want := exampleSchedule()
	rec, err := want.record()
	check.OK(t, err)
	rec.Version = want.Version
	if got, err := parseSchedule(rec); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("schedule:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
}

// TestEveryFieldOfAScheduleIsKept: a field that is added to Schedule and not to its record would
// be lost. The plan has one type conversion, which does not compile then.
func TestEveryFieldOfAScheduleIsKept(t *testing.T) {
	t.Parallel()
	of := reflect.TypeFor[Schedule]()
	body := reflect.TypeFor[scheduleBody]()
	whole := exampleSchedule()
	for i := range of.NumField() {
		name := of.Field(i).Name
		if name == "Plan" {
			continue
		}
		if _, ok := body.FieldByName(name); !ok {
			t.Errorf("the record has no field for Schedule.%s", name)
		}
		f := reflect.ValueOf(&whole).Elem().Field(i)
		switch v := f.Addr().Interface().(type) {
		case *time.Time:
			*v = time.UnixMilli(int64(1_000_000 + i)).UTC()
		case *time.Duration:
			*v = time.Duration(i)
		case *int:
			*v = i
		case *int64:
			*v = int64(i)
		default:
			f.SetString(name)
		}
	}
	rec, err := whole.record()
	check.OK(t, err)
	rec.Version = whole.Version
	got, err := parseSchedule(rec)
	check.OK(t, err)
	if !reflect.DeepEqual(got, whole) {
		t.Errorf("got  %+v\nwant %+v", got, whole)
	}
}

// TestUnknownFormatsAreRefused, and so is what is cut off.
func TestUnknownFormatsAreRefused(t *testing.T) {
	t.Parallel()
	example := exampleActions()["failed"]
	for name, tt := range map[string]struct {
		data []byte
		read func([]byte) error
		as   error
	}{
		"record": {example.record().Body, func(data []byte) error {
			_, err := parseRecord(store.Record{Key: recordKey("t", "k"), Body: data})
			return err
		}, store.ErrCorrupt},
		"message": {example.toMessage(nil).Body, func(data []byte) error {
			_, _, err := parseMessage(&store.Message{Body: data})
			return err
		}, wire.ErrFormat},
	} {
		check.Format(t, name, tt.data, tt.read, tt.as)
	}
	if _, err := parseRecord(store.Record{Body: append(example.record().Body, 0)}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a record with something behind it: %v", err)
	}
	for _, body := range []string{"", "{", `{}`, `{"format":2}`, `{"format":1,"gap":"sideways"}`} {
		if _, err := parseSchedule(store.Record{Body: []byte(body)}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("schedule %s: %v", body, err)
		}
	}
}

// FuzzRecord: whatever it reads, it writes and reads the same way.
func FuzzRecord(f *testing.F) {
	for _, example := range exampleActions() {
		f.Add(example.record().Body)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check.RoundTrip(t, data, func(data []byte) (Action, error) {
			return parseRecord(store.Record{Key: recordKey("t", "k"), Status: "failed", Body: data})
		}, func(read Action) []byte { return read.record().Body })
	})
}

// FuzzMessage does the same for messages, whose bodies are the end of them.
func FuzzMessage(f *testing.F) {
	for _, example := range exampleActions() {
		f.Add(example.toMessage([]byte("body")).Body)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read, body, err := parseMessage(&store.Message{Body: data})
		if err != nil {
			return
		}
		if !bytes.HasSuffix(data, body) {
			t.Errorf("the body of %x is %x", data, body)
		}
		first := read.toMessage(body)
		again, sameBody, err := parseMessage(&first)
		if err != nil || !bytes.Equal(body, sameBody) {
			t.Fatalf("%x was read, and %x is not: %v", data, first.Body, err)
		}
		if second := again.toMessage(sameBody); !bytes.Equal(first.Body, second.Body) {
			t.Errorf("%x and %x", first.Body, second.Body)
		}
	})
}

// FuzzSchedule does the same for schedules.
func FuzzSchedule(f *testing.F) {
	s := exampleSchedule()
	record, err := s.record()
	check.OK(f, err)
	f.Add(record.Body)
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := parseSchedule(store.Record{Key: scheduleKey("t", "k"), Body: data})
		if err != nil {
			return
		}
		first, err := read.record()
		if err != nil {
			return // such as a year that JSON does not know
		}
		again, err := parseSchedule(first)
		if err != nil {
			t.Fatalf("%s was read, and %s is not: %v", data, first.Body, err)
		}
		if second, err := again.record(); err != nil || !bytes.Equal(first.Body, second.Body) {
			t.Errorf("%s and %s, %v", first.Body, second.Body, err)
		}
	})
}
