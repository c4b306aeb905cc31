package web

import (
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// figure is a number with a link.
type figure struct {
	Label  string
	Count  int
	Href   string
	Status string // whose colour it has
	Text   string // what to do about it
	Over   bool   // there may be more than were counted
	Why    reasonGroups
}

// overviewData is what the first page shows.
type overviewData struct {
	Attention []figure // what needs a person
	Figures   []figure
	Charts    []chart
	Latest    []abide.Info
	Next      []appointment
	Bytes     int64
	Start     string // a command
}

func (s *site) overview(r *request) (view, error) {
	d := overviewData{Start: s.tool(r, `instances start order --input '{"order":17}'`)}
	if err := s.attention(r, &d); err != nil {
		return view{}, err
	}
	if err := s.figures(r, &d); err != nil {
		return view{}, err
	}
	if err := s.next(r, &d); err != nil {
		return view{}, err
	}
	if r.everything() {
		stats, err := s.cfg.Store.Stats(r.ctx())
		if err != nil {
			return view{}, err
		}
		d.Bytes = stats.Bytes
		if s.cfg.Samples != nil {
			d.Charts = charts(s.cfg.Samples())
		}
		if n := len(d.Charts); n > 0 {
			d.Charts[n-1].Note, d.Charts[n-1].Href = s.oldest(&stats)
		}
	}
	return view{template: "overview", title: "Overview", section: "overview", live: "kinds=tick,instances", data: &d}, nil
}

// attention finds what needs a person.
func (s *site) attention(r *request, d *overviewData) error {
	add := func(f figure, err error) error {
		if err == nil && f.Count > 0 {
			d.Attention = append(d.Attention, f)
		}
		return err
	}
	if s.engine != nil {
		f, err := s.failedLately(r)
		if err := add(f, err); err != nil {
			return err
		}
		f, err = s.stalled(r)
		if err := add(f, err); err != nil {
			return err
		}
		n, err := r.count(store.KindQuarantine)
		if err := add(figure{Label: "quarantined", Count: n, Href: s.path("/quarantine"), Status: "quarantined",
			Text: "Messages that could not be handled. Redrive or delete them."}, err); err != nil {
			return err
		}
		f, err = s.held(r)
		if err := add(f, err); err != nil {
			return err
		}
		if r.everything() {
			n, err = s.unserved(r.ctx())
			if err := add(figure{Label: "unserved", Count: n, Href: s.path("/workers"), Status: "unserved",
				Text: "Routes that no live worker serves. Start one that does."}, err); err != nil {
				return err
			}
		}
	}
	if s.cfg.Actions != nil {
		n, err := r.count(kindAction, string(action.Failed))
		return add(figure{Label: many(n, "failed action", "failed actions"), Count: n, Href: s.with("/actions", "status", "failed"), Status: "failed",
			Text: "They are kept for a while. Retry those that matter."}, err)
	}
	return nil
}

// oldest names the queue and route of the oldest message that is visible, and the page that
// shows what waits there. Routes that begin with a dot are those of instances that wait for a
// person.
func (s *site) oldest(stats *store.Stats) (words, href string) {
	var first *store.RouteStats
	for i := range stats.Routes {
		one := &stats.Routes[i]
		if one.Oldest.IsZero() || !one.Oldest.Before(stats.Now) || one.Ready == 0 || strings.HasPrefix(one.Route, ".") {
			continue
		}
		if first == nil || one.Oldest.Before(first.Oldest) {
			first = one
		}
	}
	if first == nil {
		return "", ""
	}
	switch first.Queue {
	case "turns":
		name, _, _ := strings.Cut(first.Route, "@")
		href = s.with("/instances", "orchestration", name, "status", "pending,running")
	case "actions":
		href = s.with("/actions", "status", string(action.Pending))
	default:
		href = s.path("/workers")
	}
	return "oldest: queue " + first.Queue + ", " + first.Route, href
}

// failedLately is what failed in the last hour, among the instances that were started last.
func (s *site) failedLately(r *request) (figure, error) {
	const hour = "-1h"
	why, err := s.grouped(r, abide.Failed, r.now().Add(-time.Hour), "status", string(abide.Failed), "ended", hour)
	return figure{
		Label: "failed in the last hour", Count: why.Count, Over: !why.All && why.Count > 0, Status: "failed", Why: why,
		Href: s.with("/instances", "status", string(abide.Failed), "ended", hour),
	}, err
}

// stalled is what has stalled.
func (s *site) stalled(r *request) (figure, error) {
	f := figure{
		Label: "stalled", Href: s.with("/instances", "status", string(abide.Stalled)), Status: "stalled",
		Text: "The code cannot continue. Deploy a build that can, then resume them.",
	}
	var err error
	if f.Count, err = r.count(kindInstance, string(abide.Stalled)); err != nil || f.Count == 0 {
		return f, err
	}
	f.Why, err = s.grouped(r, abide.Stalled, time.Time{}, "status", string(abide.Stalled))
	return f, err
}

// figures counts what there is.
func (s *site) figures(r *request, d *overviewData) error {
	type counted struct {
		label, kind, status, path string
	}
	var list []counted
	if s.engine != nil {
		for _, status := range []abide.Status{abide.Running, abide.Pending, abide.Suspended, abide.Completed, abide.Failed, abide.Cancelled, abide.Terminated} {
			list = append(list, counted{string(status), kindInstance, string(status), "/instances"})
		}
	}
	if s.cfg.Timers != nil {
		list = append(list, counted{"timers armed", kindTimer, string(timer.Armed), "/timers"})
	}
	if s.cfg.Actions != nil {
		list = append(list, counted{"actions pending", kindAction, string(action.Pending), "/actions"},
			counted{"schedules active", kindSchedule, string(action.Active), "/schedules"})
	}
	for _, c := range list {
		n, err := r.count(c.kind, c.status)
		if err != nil {
			return err
		}
		href := s.with(c.path, "status", c.status)
		if c.path == "/schedules" {
			href = s.path(c.path)
		}
		d.Figures = append(d.Figures, figure{Label: c.label, Count: n, Href: href, Status: c.status})
	}
	return nil
}

// latest is how many rows the lists of the first page have.
const latest = 6

// next finds what was started last, and what comes next.
func (s *site) next(r *request, d *overviewData) error {
	sc, err := r.scope()
	if err != nil {
		return err
	}
	if s.engine != nil {
		f := abide.Filter{Descending: true, Limit: latest}
		if sc.Asked != "" {
			f.Tenant = &sc.Asked
		}
		page, err := s.engine.List(r.ctx(), f)
		if err != nil {
			return err
		}
		d.Latest = page.Instances
	}
	timers, err := s.upcoming(r, appointments)
	if err != nil {
		return err
	}
	for i := range timers {
		t := &timers[i]
		d.Next = append(d.Next, appointment{"timer", t.Tenant, t.Key, s.path(timerPath(t.Tenant, t.Key)), t.DueAt})
	}
	if s.cfg.Actions != nil {
		page, err := s.cfg.Actions.ListSchedules(r.ctx(), action.ScheduleFilter{Tenant: sc.Asked, Limit: appointments})
		if err != nil {
			return err
		}
		for i := range page.Schedules {
			if sch := &page.Schedules[i]; !sch.Next.IsZero() && sch.Status == action.Active {
				d.Next = append(d.Next, appointment{"schedule", sch.Tenant, sch.ID, s.path(schedulePath(sch.Tenant, sch.ID)), sch.Next})
			}
		}
	}
	slices.SortStableFunc(d.Next, func(a, b appointment) int { return a.At.Compare(b.At) })
	d.Next = d.Next[:min(len(d.Next), appointments)]
	return nil
}

// appointments is how many of them the first page shows.
const appointments = 8

// appointment is a timer or a schedule that is due at a time.
type appointment struct {
	Kind, Tenant, Name, Href string
	At                       time.Time
}

// many returns the word for one or for many.
func many(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
