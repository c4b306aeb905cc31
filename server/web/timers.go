package web

import (
	"slices"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/timer"
)

func (s *site) addTimers() {
	s.section("timers", "/timers", "Timers")
	s.page("GET /timers", s.timers)
	s.page("GET /timers/{tenant}/{key}", s.timer)
	s.verb(s.scheduleTimerVerb())
	for _, v := range s.timerVerbs() {
		s.verb(v)
	}
}

func timerPath(tenant, key string) string { return "/timers/" + segment(tenant) + "/" + segment(key) }

// timersData is what the list of timers shows.
type timersData struct {
	Scope       scope
	Status      string
	Statuses    []timer.Status
	Prefix      string
	Correlation string
	Rows        []timer.Timer
	First, Next string
	Empty       bool // nothing was asked for
	Error       string
	Command     string
}

func (s *site) timers(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := timersData{
		Scope: sc, Status: r.value("status"), Statuses: []timer.Status{timer.Armed, timer.Fired, timer.Cancelled},
		Prefix: r.value("prefix"), Correlation: r.value("correlation"),
	}
	if d.Status == "" {
		d.Status = string(timer.Armed)
	}
	v := view{template: "timers", title: "Timers", section: "timers", live: "kinds=tick", data: &d}
	if !slices.Contains(d.Statuses, timer.Status(d.Status)) {
		d.Error = "There is no status " + d.Status + "."
		return v, nil
	}
	// What comes next is first; of what is over, the latest.
	f := timer.Filter{
		Tenant: sc.Asked, Statuses: []timer.Status{timer.Status(d.Status)}, KeyPrefix: d.Prefix, CorrelationID: d.Correlation,
		Descending: d.Status != string(timer.Armed),
	}
	f.Limit, f.Cursor = rows, r.value("cursor")
	page, err := s.cfg.Timers.List(r.ctx(), f)
	if err != nil {
		return view{}, err
	}
	d.Rows = page.Timers
	pairs := []string{"tenant", sc.Asked, "status", d.Status, "prefix", d.Prefix, "correlation", d.Correlation}
	if r.value("cursor") != "" {
		d.First = s.with("/timers", pairs...)
	}
	if page.Next != "" {
		d.Next = s.with("/timers", append(pairs, "cursor", page.Next)...)
	}
	d.Empty = d.Status == string(timer.Armed) && d.Prefix == "" && d.Correlation == ""
	d.Command = s.tool(r, "timers schedule first-timer --in 1m")
	return v, nil
}

// timerData is what the page of one timer shows.
type timerData struct {
	Timer    timer.Timer
	Path     string
	Verbs    []verbLink
	Commands []command
}

func (s *site) timer(r *request) (view, error) {
	t, err := s.gotTimer(r)
	if err != nil {
		return view{}, err
	}
	d := timerData{Timer: t, Path: timerPath(t.Tenant, t.Key)}
	if r.can {
		d.Verbs = s.timerLinks(t)
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, d.Path)},
		{"Copy as command", s.tool(r, "timers show "+shellQuote(t.Key)+tenantFlag(t.Tenant))},
	}
	return view{template: "timer", title: t.Key, section: "timers", live: "kinds=tick", data: &d}, nil
}

func (s *site) timerLinks(t timer.Timer) []verbLink {
	base := s.path(timerPath(t.Tenant, t.Key))
	list := []verbLink{{Label: "Move", Href: base + "/move"}}
	if t.Status != timer.Armed {
		list[0].Label = "Arm again"
	}
	if t.Status != timer.Cancelled {
		list = append(list, verbLink{Label: "Snooze", Href: base + "/snooze"})
	}
	if t.Status == timer.Armed {
		list = append(list, verbLink{Label: "Cancel", Href: base + "/cancel", Danger: true})
	}
	return list
}

func (s *site) gotTimer(r *request) (timer.Timer, error) {
	tenant, err := r.owner()
	if err != nil {
		return timer.Timer{}, err
	}
	return s.cfg.Timers.Get(r.ctx(), tenant, r.named("key"))
}

// scheduleTimerVerb arms a new timer.
func (s *site) scheduleTimerVerb() verb {
	return verb{
		pattern: "/timers/new", section: "timers", operation: "schedule-timer",
		form: func(r *request) (form, error) {
			sc, err := r.scope()
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Arm a timer", Submit: "Arm", Back: s.path("/timers"),
				Text: "When it is due, DueTimeReached is published to all sinks of its tenant.",
				Fields: []field{
					tenantField(sc, r.value("tenant")),
					{Name: "key", Label: "Key", Kind: "text", Required: true, Value: r.value("key"), Help: "A timer with the same key is moved."},
					whenField(r.value("at")),
					{Name: "correlation", Label: "Correlation ID", Kind: "text", Value: r.value("correlation")},
					{Name: "payload", Label: "Payload", Kind: "code", Value: r.value("payload"), Example: `{"order": 17}`, Help: "JSON. Empty means none."},
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			tenant, key := tenantName(r.value("tenant")), r.value("key")
			d := done{target: tenant + "/" + key, to: s.path(timerPath(tenant, key)), notice: "scheduled"}
			if err := r.allow(tenant); err != nil {
				return d, err
			}
			at, err := requireTime(r, "at")
			if err != nil {
				return d, err
			}
			payload, err := parseJSON("Payload", r.value("payload"))
			if err != nil {
				return d, err
			}
			_, err = s.cfg.Timers.Schedule(r.ctx(), timer.Request{
				Tenant: tenant, Key: key, DueAt: at, CorrelationID: r.value("correlation"), Payload: payload,
			})
			return d, err
		},
	}
}

// tenantField asks for a tenant.
func tenantField(sc scope, value string) field {
	if value == "" {
		value = sc.Asked
	}
	f := field{Name: "tenant", Label: "Tenant", Kind: "text", Value: value, Example: abide.DefaultTenant}
	if sc.Choices != nil {
		f.Kind, f.Options = "choice", options(sc.Choices...)
	}
	return f
}

// timerVerb returns a verb about the timer in the path.
func (s *site) timerVerb(name, notice string, ask func(*request, timer.Timer) form, apply func(*request, timer.Timer) error) verb {
	return verb{
		pattern: "/timers/{tenant}/{key}/" + name, section: "timers", operation: auditName(name, "-timer"),
		form: func(r *request) (form, error) {
			t, err := s.gotTimer(r)
			if err != nil {
				return form{}, err
			}
			f := ask(r, t)
			f.Back = s.path(timerPath(t.Tenant, t.Key))
			return f, nil
		},
		apply: func(r *request) (done, error) {
			t, err := s.gotTimer(r)
			if err != nil {
				return done{}, err
			}
			d := done{target: t.Tenant + "/" + t.Key, to: s.path(timerPath(t.Tenant, t.Key)), notice: notice}
			return d, apply(r, t)
		},
	}
}

func (s *site) timerVerbs() []verb {
	return []verb{
		s.timerVerb("move", "moved", func(r *request, t timer.Timer) form {
			value := r.value("at")
			if value == "" && t.Status == timer.Armed {
				value = timeValue(t.DueAt)
			}
			return form{
				Title: "Move " + t.Key, Submit: "Move", Fields: []field{whenField(value)},
				Text: "It fires at the new time, with the payload that it has. A time in the past means at once.",
			}
		}, func(r *request, t timer.Timer) error {
			at, err := requireTime(r, "at")
			if err != nil {
				return err
			}
			_, err = s.cfg.Timers.Schedule(r.ctx(), timer.Request{
				Tenant: t.Tenant, Key: t.Key, DueAt: at, CorrelationID: t.CorrelationID, Payload: t.Payload, IfVersion: t.Version,
			})
			return err
		}),
		s.timerVerb("snooze", "snoozed", func(r *request, t timer.Timer) form {
			return form{
				Title: "Snooze " + t.Key, Submit: "Snooze",
				Text:   "It fires so much later: later than it is due, or later than now if it has fired, which arms it again.",
				Fields: []field{{Name: "by", Label: "By how long", Kind: "text", Required: true, Value: r.value("by"), Example: "10m", Help: spanHelp + "."}},
			}
		}, func(r *request, t timer.Timer) error {
			d, err := parseSpan("By how long", r.value("by"))
			if err == nil && d <= 0 {
				err = mistake("By how long? Write it like this: " + spanHelp + ".")
			}
			if err != nil {
				return err
			}
			_, err = s.cfg.Timers.Snooze(r.ctx(), t.Tenant, t.Key, d)
			return err
		}),
		s.timerVerb("cancel", "cancelled", func(_ *request, t timer.Timer) form {
			return form{Title: "Cancel " + t.Key + "?", Submit: "Cancel the timer", Danger: true, Text: "It never fires, unless it is armed again."}
		}, func(r *request, t timer.Timer) error {
			_, err := s.cfg.Timers.Cancel(r.ctx(), t.Tenant, t.Key)
			return err
		}),
		s.timerVerb("redeliver", "redelivered", func(r *request, t timer.Timer) form {
			return form{
				Title: "Deliver " + t.Key + " again", Submit: "Deliver again",
				Text:   "The same envelope, with the same ID, goes to the sink once more: one that has seen it drops it.",
				Fields: []field{{Name: "sink", Label: "Sink", Kind: "choice", Required: true, Value: r.value("sink"), Options: options(sinksOf(t)...)}},
			}
		}, func(r *request, t timer.Timer) error {
			_, err := s.cfg.Timers.Redeliver(r.ctx(), t.Tenant, t.Key, r.value("sink"))
			return err
		}),
	}
}

// sinksOf returns the sinks that a timer's envelope has gone to.
func sinksOf(t timer.Timer) []string {
	names := make([]string, 0, len(t.Deliveries))
	for i := range t.Deliveries {
		names = append(names, t.Deliveries[i].Sink)
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// upcoming returns the timers that fire next.
func (s *site) upcoming(r *request, n int) ([]timer.Timer, error) {
	if s.cfg.Timers == nil {
		return nil, nil
	}
	tenants := []string{""}
	if !r.everything() {
		tenants = r.who.Tenants
	}
	var list []timer.Timer
	for _, t := range tenants {
		page, err := s.cfg.Timers.List(r.ctx(), timer.Filter{Tenant: t, Statuses: []timer.Status{timer.Armed}, Limit: n})
		if err != nil {
			return nil, err
		}
		list = append(list, page.Timers...)
	}
	slices.SortFunc(list, func(a, b timer.Timer) int {
		if c := a.DueAt.Compare(b.DueAt); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	return list[:min(n, len(list))], nil
}
