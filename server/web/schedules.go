package web

import (
	"strconv"
	"time"

	"github.com/abidehq/abide/action"
)

func (s *site) addSchedules() {
	s.section("schedules", "/schedules", "Schedules")
	s.page("GET /schedules", s.schedules)
	s.page("GET /schedules/{tenant}/{id}", s.schedule)
	s.page("GET /schedules/preview", s.preview)
	s.verb(s.addScheduleVerb())
	for _, v := range s.scheduleVerbs() {
		s.verb(v)
	}
}

func schedulePath(tenant, id string) string {
	return "/schedules/" + segment(tenant) + "/" + segment(id)
}

// scheduleRow is a schedule in a list.
type scheduleRow struct {
	action.Schedule
	Next     time.Time // in the zone of the plan
	Words    string    // when it runs
	Unserved bool      // no live worker serves its target; set in lists
}

func rowOf(sch action.Schedule) scheduleRow {
	return scheduleRow{Schedule: sch, Next: inZone(sch.Next, sch.Zone), Words: planWords(sch.Plan)}
}

// inZone returns a time in a zone, or as it is if nobody knows the zone.
func inZone(t time.Time, zone string) time.Time {
	if t.IsZero() {
		return t
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return t.UTC()
	}
	return t.In(loc)
}

// planWords returns when a plan runs.
func planWords(p action.Plan) string {
	if p.Cron == "" {
		return "every " + span(p.Every)
	}
	zone := p.Zone
	if zone == "" {
		zone = "UTC"
	}
	return p.Cron + " " + zone
}

// schedulesData is what the list of schedules shows.
type schedulesData struct {
	Scope       scope
	Rows        []scheduleRow
	First, Next string
	Command     string
}

func (s *site) schedules(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	page, err := s.cfg.Actions.ListSchedules(r.ctx(), action.ScheduleFilter{Tenant: sc.Asked, Limit: rows, Cursor: r.value("cursor")})
	if err != nil {
		return view{}, err
	}
	d := schedulesData{Scope: sc, Command: s.tool(r, `schedules add nightly --slug billing --cron "0 9 * * *" --zone Europe/Berlin`)}
	for _, sch := range page.Schedules {
		row := rowOf(sch)
		row.Unserved = sch.Status != action.Ended && s.targetUnserved(r, sch.Target)
		d.Rows = append(d.Rows, row)
	}
	if r.value("cursor") != "" {
		d.First = s.with("/schedules", "tenant", sc.Asked)
	}
	if page.Next != "" {
		d.Next = s.with("/schedules", "tenant", sc.Asked, "cursor", page.Next)
	}
	return view{template: "schedules", title: "Schedules", section: "schedules", live: "kinds=tick", data: &d}, nil
}

// scheduleData is what the page of one schedule shows.
type scheduleData struct {
	Schedule scheduleRow
	Path     string
	Next     []time.Time // the next runs, in the zone of the plan
	Current  string      // the address of the action that was made last
	Verbs    []verbLink
	Commands []command
}

// nextRuns is how many runs of a schedule a page shows.
const nextRuns = 5

func (s *site) schedule(r *request) (view, error) {
	sch, err := s.gotSchedule(r)
	if err != nil {
		return view{}, err
	}
	d := scheduleData{Schedule: rowOf(sch), Path: schedulePath(sch.Tenant, sch.ID)}
	if sch.Status == action.Active {
		// The plan is one that was accepted; if it cannot be read any more, the page says
		// all the rest.
		d.Next, _ = action.Preview(sch.Plan, sch.Next, nextRuns)
	}
	if sch.Current != "" {
		d.Current = s.path(actionPath(sch.Tenant, sch.Current))
	}
	if r.can {
		d.Verbs = s.scheduleLinks(sch)
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, d.Path)},
		{"Copy as command", s.tool(r, "schedules show "+shellQuote(sch.ID)+tenantFlag(sch.Tenant))},
	}
	return view{template: "schedule", title: sch.ID, section: "schedules", live: "kinds=tick", data: &d}, nil
}

func (s *site) gotSchedule(r *request) (action.Schedule, error) {
	tenant, err := r.owner()
	if err != nil {
		return action.Schedule{}, err
	}
	return s.cfg.Actions.GetSchedule(r.ctx(), tenant, r.named("id"))
}

func (s *site) scheduleLinks(sch action.Schedule) []verbLink {
	base := s.path(schedulePath(sch.Tenant, sch.ID))
	list := []verbLink{{Label: "Run now", Href: base + "/trigger"}}
	switch sch.Status {
	case action.Active:
		list = append(list, verbLink{Label: "Pause", Href: base + "/pause"})
	case action.Paused:
		list = append(list, verbLink{Label: "Resume", Href: base + "/resume"})
	default:
	}
	return append(list, verbLink{Label: "Edit", Href: base + "/edit"}, verbLink{Label: "Backfill", Href: base + "/backfill"},
		verbLink{Label: "Delete", Href: base + "/delete", Danger: true})
}

// auditName returns what the API calls a verb, which is not always what the page does.
func auditName(verb, suffix string) string {
	if name, ok := map[string]string{"edit-schedule": "update-schedule", "delete-schedule": "remove-schedule", "move-timer": "schedule-timer"}[verb+suffix]; ok {
		return name
	}
	return verb + suffix
}

// scheduleVerb returns a verb about the schedule in the path.
func (s *site) scheduleVerb(name, notice string, ask func(*request, action.Schedule) form, apply func(*request, action.Schedule, *done) error) verb {
	return verb{
		pattern: "/schedules/{tenant}/{id}/" + name, section: "schedules", operation: auditName(name, "-schedule"),
		form: func(r *request) (form, error) {
			sch, err := s.gotSchedule(r)
			if err != nil {
				return form{}, err
			}
			f := ask(r, sch)
			f.Back = s.path(schedulePath(sch.Tenant, sch.ID))
			return f, nil
		},
		apply: func(r *request) (done, error) {
			sch, err := s.gotSchedule(r)
			if err != nil {
				return done{}, err
			}
			d := done{target: sch.Tenant + "/" + sch.ID, to: s.path(schedulePath(sch.Tenant, sch.ID)), notice: notice}
			err = apply(r, sch, &d)
			return d, err
		},
	}
}

func (s *site) scheduleVerbs() []verb {
	actions := s.cfg.Actions
	return []verb{
		s.scheduleVerb("trigger", "triggered", func(_ *request, sch action.Schedule) form {
			return form{Title: "Run " + sch.ID + " now?", Submit: "Run now", Text: "An action is made as if a run were due, whatever runs beside it. Its next run stays when it is."}
		}, func(r *request, sch action.Schedule, d *done) error {
			a, err := actions.Trigger(r.ctx(), sch.Tenant, sch.ID)
			d.to = s.path(actionPath(a.Tenant, a.ID))
			return err
		}),
		s.scheduleVerb("pause", "paused", func(_ *request, sch action.Schedule) form {
			return form{
				Title: "Pause " + sch.ID + "?", Submit: "Pause", Fields: []field{reasonField()},
				Text: "It makes no actions until it is resumed. What is due meanwhile is skipped; a backfill can make it later.",
			}
		}, func(r *request, sch action.Schedule, _ *done) error {
			_, err := actions.Pause(r.ctx(), sch.Tenant, sch.ID, r.value("reason"))
			return err
		}),
		s.scheduleVerb("resume", "unpaused", func(_ *request, sch action.Schedule) form {
			return form{Title: "Resume " + sch.ID + "?", Submit: "Resume", Text: "It goes on from now. What was due meanwhile is skipped."}
		}, func(r *request, sch action.Schedule, _ *done) error {
			_, err := actions.Resume(r.ctx(), sch.Tenant, sch.ID)
			return err
		}),
		s.scheduleVerb("backfill", "backfilled", func(r *request, sch action.Schedule) form {
			return form{
				Title: "Backfill " + sch.ID, Submit: "Make the runs",
				Text: "The runs that were, or will be, due between two times are made now, beside each other: 1,000 at most. It does not matter whether some were made before.",
				Fields: []field{
					{Name: "from", Label: "From", Kind: "text", Required: true, Value: r.value("from"), Example: "-24h", Help: timeHelp + ", or -24h."},
					{Name: "to", Label: "To, not included", Kind: "text", Required: true, Value: r.value("to"), Example: "-0s"},
				},
			}
		}, func(r *request, sch action.Schedule, _ *done) error {
			from, err := parseTime("From", r.value("from"), r.now())
			if err != nil {
				return err
			}
			to, err := parseTime("To", r.value("to"), r.now())
			if err != nil {
				return err
			}
			_, err = actions.Backfill(r.ctx(), sch.Tenant, sch.ID, from, to)
			return err
		}),
		s.scheduleVerb("edit", "saved", func(r *request, sch action.Schedule) form {
			f := form{Preview: s.path("/schedules/preview"), Title: "Edit " + sch.ID, Submit: "Save", Text: "What it has done stays as it is. What is due and not yet made is skipped."}
			f.Fields = append(planFields(sch.Plan, s.targets(r, scope{Asked: sch.Tenant})), field{Name: "version", Kind: "hidden", Value: strconv.FormatInt(sch.Version, 10)})
			return f
		}, func(r *request, sch action.Schedule, _ *done) error {
			p, err := r.plan(sch.Tenant, sch.ID)
			if err != nil {
				return err
			}
			version, err := parseCount("Version", r.value("version"))
			if err != nil {
				return err
			}
			// Who edits a schedule sees what others have made of it meanwhile first.
			_, err = actions.UpdateSchedule(r.ctx(), p, int64(version))
			return err
		}),
		s.scheduleVerb("delete", "deleted", func(_ *request, sch action.Schedule) form {
			return form{Title: "Delete " + sch.ID + "?", Submit: "Delete", Danger: true, Text: "The schedule goes for good. The actions that it has made stay."}
		}, func(r *request, sch action.Schedule, d *done) error {
			d.to = s.path("/schedules")
			return actions.RemoveSchedule(r.ctx(), sch.Tenant, sch.ID)
		}),
	}
}
