package timer_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/timer"
)

// TestRequestsKeepTheRules: what is at the edge is accepted, what is beyond is refused with
// an error that names the field and what is allowed.
func TestRequestsKeepTheRules(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.MaxPayload = 10 })
		text := func(n int) string { return strings.Repeat("x", n) }
		for name, tt := range map[string]struct {
			change func(*timer.Request)
			says   []string // of the error; none means that it is accepted
		}{
			"longest tenant":           {func(q *timer.Request) { q.Tenant = text(256) }, nil},
			"tenant too long":          {func(q *timer.Request) { q.Tenant = text(257) }, []string{"tenant has 257 bytes", "at most 256"}},
			"no tenant":                {func(q *timer.Request) { q.Tenant = "" }, []string{"tenant is empty"}},
			"tenant with a newline":    {func(q *timer.Request) { q.Tenant = "a\nb" }, []string{"tenant", `"a\nb"`, "control character"}},
			"tenant that is not UTF-8": {func(q *timer.Request) { q.Tenant = "a\xff" }, []string{"tenant", "not UTF-8"}},
			"longest key":              {func(q *timer.Request) { q.Key = text(512) }, nil},
			"key too long":             {func(q *timer.Request) { q.Key = text(513) }, []string{"key has 513 bytes", "at most 512"}},
			"no key":                   {func(q *timer.Request) { q.Key = "" }, []string{"key is empty"}},
			"key with a delete":        {func(q *timer.Request) { q.Key = "a\x7f" }, []string{"key", "control character"}},
			"key that is not UTF-8":    {func(q *timer.Request) { q.Key = "\xc3(" }, []string{"key", "not UTF-8"}},
			"key of any letters":       {func(q *timer.Request) { q.Key = "a/b ü/日本 #?%" }, nil},
			"longest correlation ID":   {func(q *timer.Request) { q.CorrelationID = text(256) }, nil},
			"correlation ID too long":  {func(q *timer.Request) { q.CorrelationID = text(257) }, []string{"correlation ID has 257 bytes"}},
			"correlation ID with NUL":  {func(q *timer.Request) { q.CorrelationID = "\x00" }, []string{"correlation ID", "control character"}},
			"source too long":          {func(q *timer.Request) { q.Position.Source = text(257) }, []string{"source has 257 bytes"}},
			"largest payload":          {func(q *timer.Request) { q.Payload = json.RawMessage(`"12345678"`) }, nil},
			"payload too large":        {func(q *timer.Request) { q.Payload = json.RawMessage(`"123456789"`) }, []string{"acme/k", "payload of 11 bytes", "at most 10"}},
			"payload that is no JSON":  {func(q *timer.Request) { q.Payload = json.RawMessage(`{"a":}`) }, []string{"acme/k", "payload that is not JSON"}},
			"two payloads":             {func(q *timer.Request) { q.Payload = json.RawMessage(`1 2`) }, []string{"acme/k", "payload that is not JSON"}},
			"longest delay":            {func(q *timer.Request) { q.Delay = timer.MaxDelay }, nil},
			"delay too long":           {func(q *timer.Request) { q.Delay = timer.MaxDelay + 1 }, []string{"acme/k", "delay", "at most 876000h0m0s"}},
			"negative delay":           {func(q *timer.Request) { q.Delay = -1 }, []string{"acme/k", "delay of -1ns", "negative"}},
			"last due time":            {func(q *timer.Request) { q.DueAt = time.Date(9998, 12, 31, 23, 59, 59, 999999999, time.UTC) }, nil},
			"due time too late":        {func(q *timer.Request) { q.DueAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"acme/k", "year 9999", "at most 9998"}},
			"due time and delay":       {func(q *timer.Request) { q.DueAt, q.Delay = time.Now(), 1 }, []string{"acme/k", "a due time and a delay"}},
			"negative version":         {func(q *timer.Request) { q.IfVersion = -1 }, []string{"acme/k", "version -1", "begin at 1"}},
		} {
			request := timer.Request{Tenant: "acme", Key: "k"}
			tt.change(&request)
			_, err := r.Schedule(t.Context(), request)
			if tt.says == nil {
				check.Equal(t, name+": error", err, nil)
				if _, err := r.Get(t.Context(), request.Tenant, request.Key); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if check.ErrorOf(t, "timer", err, timer.ErrInvalid, append(tt.says, "timer: schedule: ")...); t.Failed() {
				t.Fatalf("that was: %s", name)
			}
		}
	})
}

// TestWhatIsAsLargeAsItMayBeIsPublished.
func TestWhatIsAsLargeAsItMayBeIsPublished(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.MaxPayload = timer.MaxPayload })
		r.run()
		r.schedule(timer.Request{
			Tenant: strings.Repeat("t", timer.MaxTenant), Key: strings.Repeat("<", timer.MaxKey),
			CorrelationID: strings.Repeat("c", timer.MaxCorrelation),
			Payload:       json.RawMessage(`"` + strings.Repeat("x", timer.MaxPayload-2) + `"`),
		})
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 1)
		if err := r.sink.Accepted()[0].Validate(); err != nil {
			t.Error(err)
		}
	})
}

// TestNamesAreCheckedByEveryVerb.
func TestNamesAreCheckedByEveryVerb(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for verb, call := range map[string]func(tenant, key string) error{
			"get":    func(tenant, key string) error { _, err := r.Get(t.Context(), tenant, key); return err },
			"cancel": func(tenant, key string) error { _, err := r.Cancel(t.Context(), tenant, key); return err },
			"snooze": func(tenant, key string) error { _, err := r.Snooze(t.Context(), tenant, key, 1); return err },
		} {
			err := call("", "k")
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "timer: "+verb+": tenant is empty")
			check.Error(t, err, bus.ErrInvalid)
			check.ErrorOf(t, "timer", call("acme", "a\tb"), timer.ErrInvalid, "timer: "+verb+": key")
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	t.Cleanup(func() { _ = s.Close() })
	for says, change := range map[string]func(*timer.Config){
		"Config.Store":         func(c *timer.Config) { c.Store = nil },
		"Config.Quota":         func(c *timer.Config) { c.Quota = -1 },
		"Config.MaxPayload":    func(c *timer.Config) { c.MaxPayload = timer.MaxPayload + 1 },
		"Config.Batch":         func(c *timer.Config) { c.Batch = timer.MaxBulk + 1 },
		"Config.Workers":       func(c *timer.Config) { c.Workers = 65 },
		"Config.LeaseDuration": func(c *timer.Config) { c.LeaseDuration = time.Second - 1 },
		"Config.Retention":     func(c *timer.Config) { c.Retention = time.Minute - 1 },
	} {
		cfg := timer.Config{Store: s}
		change(&cfg)
		_, err := timer.New(cfg)
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, says)
	}
	if _, err := timer.New(timer.Config{Store: s, Sinks: []outbox.Sink{{Name: "a sink"}}}); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("error %v of a sink that cannot be", err)
	}
	only, err := timer.New(timer.Config{Store: s})
	check.OK(t, err)
	if _, err := only.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k"}); err != nil {
		t.Errorf("a service that only schedules: %v", err)
	}
	check.ErrorOf(t, "timer", only.Run(t.Context()), timer.ErrInvalid, "Config.Sinks")
}
