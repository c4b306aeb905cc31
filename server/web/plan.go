package web

import (
	"encoding"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
)

// planFields ask for a plan, without its tenant and ID.
func planFields(p action.Plan, targets []string) []field {
	idempotent := ""
	if p.Idempotent {
		idempotent = "yes"
	}
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	return workFields(p.Slug, p.Target, targets, string(p.Payload), idempotent,
		field{Name: "cron", Label: "Cron", Kind: "text", Value: p.Cron, Example: "0 9 * * 1-5", Help: "Minute, hour, day of the month, month, day of the week; seconds first if there are six."},
		field{Name: "zone", Label: "Time zone", Kind: "text", Value: p.Zone, Example: "Europe/Berlin", Options: options(zones...), Help: "UTC if it is empty."},
		field{Name: "every", Label: "Or every", Kind: "text", Value: span(p.Every), Example: "15m", Help: "Instead of cron: " + spanHelp + "."},
		field{Name: "gap", More: true, Label: "Local times that do not exist", Kind: "choice", Value: p.Gap.String(), Options: []option{
			{action.GapRunAfter.String(), "run once after the gap"}, {action.GapSkip.String(), "skip"},
		}},
		field{Name: "fold", More: true, Label: "Local times that come twice", Kind: "choice", Value: p.Fold.String(), Options: []option{
			{action.FoldFirst.String(), "run the first time"}, {action.FoldSecond.String(), "run the second time"}, {action.FoldBoth.String(), "run both times"},
		}},
		field{Name: "overlap", More: true, Label: "A run that is due while the one before goes on", Kind: "choice", Value: string(p.Overlap), Options: []option{
			{string(action.OverlapSkip), "is skipped"}, {string(action.OverlapQueue), "follows it"},
			{string(action.OverlapAllow), "runs beside it"}, {string(action.OverlapCancel), "cancels it"},
		}},
		field{Name: "catch_up", More: true, Label: "Runs that were missed while nobody was there", Kind: "choice", Value: string(p.CatchUp), Options: []option{
			{string(action.CatchUpOne), "make the last one"}, {string(action.CatchUpAll), "make all of them"}, {string(action.CatchUpNone), "skip them"},
		}},
		field{Name: "window", More: true, Label: "Missed at most so long ago", Kind: "text", Value: span(p.Window), Example: "24h"},
		field{Name: "cap", More: true, Label: "Missed runs to make at most", Kind: "text", Value: count(p.Cap), Example: "100"},
		field{Name: "jitter", More: true, Label: "Jitter", Kind: "text", Value: span(p.Jitter), Example: "30s", Help: "By how much runs may be late, so that not all schedules run at once."},
		field{Name: "from", More: true, Label: "From", Kind: "text", Value: timeValue(p.From), Help: timeHelp + "."},
		field{Name: "until", More: true, Label: "Until", Kind: "text", Value: timeValue(p.Until)},
		field{Name: "count", More: true, Label: "How many runs at most", Kind: "text", Value: count(p.Count)})
}

// plan returns the plan that a form describes.
func (r *request) plan(tenant, id string) (action.Plan, error) {
	p := action.Plan{
		Tenant: tenant, ID: id, Slug: r.value("slug"), Target: r.value("target"), Idempotent: r.value("idempotent") != "",
		Cron: r.value("cron"), Zone: r.value("zone"),
		Overlap: action.Overlap(r.value("overlap")), CatchUp: action.CatchUp(r.value("catch_up")),
	}
	var err error
	if p.Payload, err = parseJSON("Payload", r.value("payload")); err != nil {
		return p, err
	}
	// What is empty stays at what it is unless said otherwise.
	for name, to := range map[string]encoding.TextUnmarshaler{"gap": &p.Gap, "fold": &p.Fold} {
		if text := r.value(name); text != "" {
			if err := to.UnmarshalText([]byte(text)); err != nil {
				return p, mistake(err.Error())
			}
		}
	}
	for _, f := range []struct {
		label, name string
		to          *time.Duration
	}{{"Every", "every", &p.Every}, {"Missed at most so long ago", "window", &p.Window}, {"Jitter", "jitter", &p.Jitter}} {
		if *f.to, err = parseSpan(f.label, r.value(f.name)); err != nil {
			return p, err
		}
	}
	for _, f := range []struct {
		label, name string
		to          *int
	}{{"Missed runs to make at most", "cap", &p.Cap}, {"How many runs at most", "count", &p.Count}} {
		if *f.to, err = parseCount(f.label, r.value(f.name)); err != nil {
			return p, err
		}
	}
	if p.From, err = parseTime("From", r.value("from"), r.now()); err != nil {
		return p, err
	}
	p.Until, err = parseTime("Until", r.value("until"), r.now())
	return p, err
}

func (s *site) addScheduleVerb() verb {
	return verb{
		pattern: "/schedules/new", section: "schedules", operation: "add-schedule",
		form: func(r *request) (form, error) {
			sc, err := r.scope()
			if err != nil {
				return form{}, err
			}
			return form{
				Preview: s.path("/schedules/preview"), Title: "Add a schedule", Submit: "Add", Back: s.path("/schedules"), Text: "It makes an action at each of its times. A preview shows them before anything is added.",
				Fields: append([]field{
					tenantField(sc, r.value("tenant")),
					{Name: "id", Label: "ID", Kind: "text", Required: true, Value: r.value("id"), Example: "billing-daily"},
				}, planFields(action.Plan{
					Slug: r.value("slug"), Target: r.value("target"), Cron: r.value("cron"), Zone: r.value("zone"),
				}, s.targets(r, sc))...),
			}, nil
		},
		apply: func(r *request) (done, error) {
			tenant, id := tenantName(r.value("tenant")), r.value("id")
			d := done{target: tenant + "/" + id, to: s.path(schedulePath(tenant, id)), notice: "added"}
			if err := r.allow(tenant); err != nil {
				return d, err
			}
			p, err := r.plan(tenant, id)
			if err != nil {
				return d, err
			}
			sch, err := s.cfg.Actions.AddSchedule(r.ctx(), p)
			if sch.Warning != "" {
				d.notice = "added-unserved"
			}
			return d, err
		},
	}
}

// previewData is what the preview of a plan shows.
type previewData struct {
	Cron, Zone, Every string
	Asked             bool
	Runs              []time.Time
	Error             string
	Add               string // the address of the form that adds such a schedule
}

// previewRuns is how many runs a preview shows.
const previewRuns = 12

// preview shows when a plan would run, without keeping anything.
func (s *site) preview(r *request) (view, error) {
	d := previewData{Cron: r.value("cron"), Zone: r.value("zone"), Every: r.value("every")}
	d.Asked = d.Cron != "" || d.Every != ""
	if d.Asked {
		every, err := parseSpan("Every", d.Every)
		if err == nil {
			p := action.Plan{Tenant: abide.DefaultTenant, ID: "preview", Slug: "preview", Target: "preview", Cron: d.Cron, Zone: d.Zone, Every: every}
			d.Runs, err = action.Preview(p, r.now(), previewRuns)
		}
		if err != nil {
			d.Error = explain(err).text
		}
	}
	if r.can {
		d.Add = s.with("/schedules/new", "cron", d.Cron, "zone", d.Zone)
	}
	return view{template: "preview", title: "Preview", section: "schedules", data: &d}, nil
}
