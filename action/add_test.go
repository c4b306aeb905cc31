package action_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

// TestAddIsIdempotentByID: the first one stays as it is, whatever became of it.
func TestAddIsIdempotentByID(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		first := r.add(action.Request{ID: "a", Slug: "one", Delay: time.Minute})
		again := func(what string) {
			t.Helper()
			before := r.get("a")
			got, existed, err := r.Add(t.Context(), fill(action.Request{ID: "a", Slug: "two"}))
			if err != nil || !existed {
				t.Errorf("%s: existed %v, %v", what, existed, err)
			}
			wantAction(t, what, got, before)
		}
		again("pending")
		wantAction(t, "the first one", r.get("a"), first)
		rig.Pass(time.Minute)
		r.tick()
		again("completed")
		r.tick()
		r.wantIDs("a")
		// Another tenant has IDs of its own.
		if _, existed, err := r.Add(t.Context(), fill(action.Request{Tenant: "other", ID: "a"})); existed || err != nil {
			t.Errorf("of another tenant: existed %v, %v", existed, err)
		}
	})
}

func TestAddMakesAnID(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		ids := map[string]bool{}
		for range 100 {
			ids[r.add(action.Request{}).ID] = true
		}
		check.Equal(t, "IDs", len(ids), 100)
	})
}

// TestWhenAnActionIsDue: a time that has passed, and none, mean now.
func TestWhenAnActionIsDue(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for _, tt := range []struct {
			name string
			req  action.Request
			want time.Time
		}{
			{"at once", action.Request{}, r.At(0)},
			{"a delay", action.Request{Delay: time.Minute}, r.At(time.Minute)},
			{"a delay is rounded up", action.Request{Delay: time.Minute + 1}, r.At(time.Minute + time.Millisecond)},
			{"a time", action.Request{At: r.At(time.Hour)}, r.At(time.Hour)},
			{"a time is rounded up", action.Request{At: r.At(time.Hour - 1)}, r.At(time.Hour)},
			{"in another zone", action.Request{At: r.At(time.Hour).In(time.FixedZone("", 3600))}, r.At(time.Hour)},
			{"the past", action.Request{At: r.At(-time.Hour)}, r.At(-time.Hour)},
			{"before 1970", action.Request{At: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)}, time.UnixMilli(1)},
			{"far away", action.Request{At: time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC)}, time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC)},
		} {
			a := r.add(tt.req)
			check.Equal(t, tt.name, a.Trigger.At, tt.want)
			check.Equal(t, tt.name+", read again", r.get(a.ID).Due(), tt.want)
		}
	})
}

// TestLimitsAtTheirEdge: what just fits is accepted, and one more is not.
func TestLimitsAtTheirEdge(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		x := func(n int) string { return strings.Repeat("x", n) }
		json := func(n int) []byte { return []byte(`"` + x(n-2) + `"`) }
		for _, tt := range []struct {
			name  string
			most  int
			says  string
			build func(n int) action.Request
		}{
			{"tenant", action.MaxTenant, "tenant has 257 bytes, at most 256", func(n int) action.Request { return action.Request{Tenant: x(n)} }},
			{"slug", action.MaxSlug, "slug has 129 bytes, at most 128", func(n int) action.Request { return action.Request{Slug: x(n)} }},
			{"target", action.MaxTarget, "target has 65 bytes, at most 64", func(n int) action.Request { return action.Request{Target: x(n)} }},
			{"ID", action.MaxID, "ID has 129 bytes, at most 128", func(n int) action.Request { return action.Request{ID: x(n)} }},
			{"payload", action.MaxPayload, "262145 bytes, at most 262144", func(n int) action.Request { return action.Request{Payload: json(n)} }},
		} {
			if _, _, err := r.Add(t.Context(), fill(tt.build(tt.most))); err != nil {
				t.Errorf("%s of %d bytes: %v", tt.name, tt.most, err)
			}
			_, _, err := r.Add(t.Context(), fill(tt.build(tt.most+1)))
			check.ErrorOf(t, "action", err, action.ErrInvalid, tt.says)
		}
	})
}

// TestNoTenantIsTheDefault, as everywhere else.
func TestNoTenantIsTheDefault(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		a, _, err := r.Add(t.Context(), action.Request{Slug: "s", Target: "t"})
		check.OK(t, err)
		check.Equal(t, "tenant of an action", a.Tenant, "default")
		sch, err := r.AddSchedule(t.Context(), action.Plan{ID: "nightly", Slug: "s", Target: "t", Cron: "30 2 * * *"})
		check.OK(t, err)
		check.Equal(t, "tenant of a schedule", sch.Tenant, "default")
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		for says, req := range map[string]action.Request{
			"a time and a delay":                   {At: r.At(0), Delay: 1},
			"the delay is -1ns":                    {Delay: -1},
			"too far in the future":                {At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
			"at most a hundred years":              {Delay: 101 * 365 * 24 * time.Hour},
			"the payload is not JSON":              {Payload: []byte("{")},
			`ID "a\nb" has a control character`:    {ID: "a\nb"},
			`"delivery-", which is reserved for w`: {ID: "delivery-5f2c"},
			`tenant "a\x00" has a control`:         {Tenant: "a\x00"},
			`target "\xff" is not UTF-8`:           {Target: "\xff"},
			`slug "a b" has ' ' at byte 1`:         {Slug: "a b"},
			`slug "-rf" has '-' at byte 0`:         {Slug: "-rf"},
			`slug ".git" has '.' at byte 0`:        {Slug: ".git"},
			`slug "a/b" has '/' at byte 1`:         {Slug: "a/b"},
			`slug "a;b" has ';' at byte 1`:         {Slug: "a;b"},
			`slug "grün" has 'ü' at byte 2`:        {Slug: "grün"},
			`slug "{slug}" has '{' at byte 0; le`:  {Slug: "{slug}"},
		} {
			_, _, err := r.Add(t.Context(), fill(req))
			check.ErrorOf(t, "action", err, action.ErrInvalid, "action: add: ", says)
		}
		for field, req := range map[string]action.Request{
			"slug": {Tenant: "t", Target: "t"}, "target": {Tenant: "t", Slug: "s"},
		} {
			_, _, err := r.Add(t.Context(), req)
			check.ErrorOf(t, "action", err, action.ErrInvalid, field+" is empty")
		}
		check.Equal(t, "messages", r.Pending(), 0)
	})
}

// TestSlugs: what can be an argument of a command, and is never taken for an option.
func TestSlugs(t *testing.T) {
	t.Parallel()
	for _, slug := range []string{"a", "A9", "_x", "7", "web-1.example.org", "a..b", "a--b", "a_", "a.", "a-"} {
		if err := action.CheckSlug(slug); err != nil {
			t.Errorf("%q: %v", slug, err)
		}
	}
	for _, slug := range []string{"", "-", ".", "..", "--help", " a", "a ", "a\n", "a$b", "a\\b", "ａ", "a\x00"} {
		if err := action.CheckSlug(slug); err == nil {
			t.Errorf("%q is allowed", slug)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	do := func(d action.Definition) func(*action.Config) {
		return func(c *action.Config) { c.Targets = map[string]action.Definition{"do": d} }
	}
	f := action.Func(j.act)
	for says, change := range map[string]func(*action.Config){
		"Config.Store is missing":         func(c *action.Config) { c.Store = nil },
		"Config.Rate is 9ms":              func(c *action.Config) { c.Rate = 9 * time.Millisecond },
		"Config.Rate is 24h0m0.001s":      func(c *action.Config) { c.Rate = 24*time.Hour + time.Millisecond },
		"Config.Slots is -1":              func(c *action.Config) { c.Slots = -1 },
		"Config.Slots is 100001":          func(c *action.Config) { c.Slots = 100_001 },
		"Config.LeaseDuration is 999ms":   func(c *action.Config) { c.LeaseDuration = 999 * time.Millisecond },
		"Config.LeaseDuration is 25h0m0s": func(c *action.Config) { c.LeaseDuration = 25 * time.Hour },
		"Config.DrainTimeout is -1ns":     func(c *action.Config) { c.DrainTimeout = -1 },
		"Config.Output is 1048577":        func(c *action.Config) { c.Output = action.MaxOutput + 1 },
		`target "do" has no Target`:       do(action.Definition{}),
		"Timeout is -1ns":                 do(action.Definition{Target: f, Timeout: -1}),
		"Attempts is -1":                  do(action.Definition{Target: f, Attempts: -1}),
		"Attempts is 1001":                do(action.Definition{Target: f, Attempts: 1001}),
		"MaxInFlight is -1":               do(action.Definition{Target: f, MaxInFlight: -1}),
		"Backoff is 999µs":                do(action.Definition{Target: f, Backoff: 999 * time.Microsecond}),
		"Backoff is 1h0m0.001s":           do(action.Definition{Target: f, Backoff: time.Hour + time.Millisecond}),
		"name of a target has 65 bytes":   func(c *action.Config) { c.Targets = map[string]action.Definition{strings.Repeat("x", 65): {Target: f}} },
		"name of a target is empty":       func(c *action.Config) { c.Targets = map[string]action.Definition{"": {Target: f}} },
	} {
		cfg := action.Config{Store: newFixture(t).Store}
		change(&cfg)
		_, err := action.New(cfg)
		check.ErrorOf(t, "action", err, action.ErrInvalid, says)
	}
	for name, change := range map[string]func(*action.Config){
		"the longest rate": func(c *action.Config) { c.Rate = action.MaxRate }, "the shortest rate": func(c *action.Config) { c.Rate = action.MinRate },
		"the shortest lease": func(c *action.Config) { c.LeaseDuration = time.Second }, "no targets": func(*action.Config) {},
		"the longest output":  func(c *action.Config) { c.Output = action.MaxOutput },
		"the longest backoff": do(action.Definition{Target: f, Backoff: time.Hour, Attempts: 1000}),
	} {
		cfg := action.Config{Store: newFixture(t).Store}
		change(&cfg)
		if _, err := action.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReceiveLimitsAtTheirEdge is about the body and the headers of a webhook.
func TestReceiveLimitsAtTheirEdge(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		headers := func(n int) map[string]string {
			h := map[string]string{}
			for i := range n {
				h[fmt.Sprint("X-", i)] = "v"
			}
			return h
		}
		x := func(n int) string { return strings.Repeat("x", n) }
		for _, tt := range []struct {
			name, says string
			fits, not  action.Received
		}{
			{"body", "2097153 bytes, at most 2097152", action.Received{Body: make([]byte, action.MaxBody)}, action.Received{Body: make([]byte, action.MaxBody+1)}},
			{"headers", "33 headers are to be kept, at most 32", action.Received{Header: headers(action.MaxHeaders)}, action.Received{Header: headers(action.MaxHeaders + 1)}},
			{"name", "too long to be kept; at most 1024", action.Received{Header: map[string]string{x(action.MaxHeader): ""}}, action.Received{Header: map[string]string{x(action.MaxHeader + 1): ""}}},
			{"value", `header "h" is too long`, action.Received{Header: map[string]string{"h": x(action.MaxHeader)}}, action.Received{Header: map[string]string{"h": x(action.MaxHeader + 1)}}},
		} {
			for i, received := range []action.Received{tt.fits, tt.not} {
				received.Tenant, received.Slug, received.Target = "acme", "app", "do"
				_, _, err := r.Receive(t.Context(), received)
				if i == 0 && err != nil {
					t.Errorf("%s: %v", tt.name, err)
				} else if i == 1 {
					check.ErrorOf(t, "action", err, action.ErrInvalid, "action: receive: ", tt.says)
				}
			}
		}
		_, _, err := r.Receive(t.Context(), action.Received{Tenant: "acme", Slug: "a b", Target: "do"})
		check.ErrorOf(t, "action", err, action.ErrInvalid, `slug "a b"`)
		// The largest of them can be run, fail, be kept and be run again.
		r.will(fails("no"))
		r.tick()
		page, err := r.List(t.Context(), action.Filter{Statuses: []action.Status{action.Failed}})
		if err != nil || len(page.Actions) != 4 {
			t.Fatalf("%d actions have failed, %v", len(page.Actions), err)
		}
		for _, a := range page.Actions {
			r.retry(a.ID)
		}
		r.will(nil)
		r.tick()
		check.Equal(t, "messages", r.Pending(), 0)
	})
}
