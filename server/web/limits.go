package web

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

func (s *site) addLimits() {
	s.section("limits", "/limits", "Limits")
	s.page("GET /limits", s.limits)
	s.page("GET /limits/{tenant}/{name}", s.limit)
	for _, v := range s.limitVerbs() {
		s.verb(v)
	}
}

func limitPath(tenant, name string) string {
	return "/limits/" + segment(tenantName(tenant)) + "/" + segment(name)
}

// limitRow is a limit in a list.
type limitRow struct {
	abide.LimitInfo
	Use    limitUse
	Oldest time.Time        // since when what has waited longest waits, as far as the keys were looked at
	Top    []abide.LimitKey // the keys with the most waiting, in a list
	Others int              // keys that are not among them
}

// limitUse is how much of a concurrency is in use.
type limitUse struct {
	N, Of   int
	Counted bool // without a concurrency nobody counts
	Full    bool
}

func useOf(inUse int, rule abide.LimitRule) limitUse {
	return limitUse{N: inUse, Of: rule.Concurrency, Counted: rule.Concurrency > 0 || inUse > 0, Full: rule.Concurrency > 0 && inUse >= rule.Concurrency}
}

// topKeys is how many keys of a limit a list shows.
const topKeys = 3

func limitRowOf(info abide.LimitInfo) limitRow {
	row := limitRow{LimitInfo: info, Use: useOf(info.InUse, info.Rule())}
	for i := range info.Keys {
		if at := info.Keys[i].Oldest; !at.IsZero() && (row.Oldest.IsZero() || at.Before(row.Oldest)) {
			row.Oldest = at
		}
	}
	if info.PerKey {
		row.Use.Of, row.Use.Full = 0, false // it is of each key
		row.Top = info.Keys[:min(len(info.Keys), topKeys)]
		row.Others = len(info.Keys) - len(row.Top)
	}
	return row
}

// ruleWords returns what a rule allows.
func ruleWords(rule abide.LimitRule) string {
	var list []string
	if rule.Concurrency > 0 {
		list = append(list, number(rule.Concurrency)+" at a time")
	}
	if rule.Rate > 0 {
		words := number(rule.Rate) + " " + perWords(rule.Per)
		if rule.Burst > 0 {
			words += ", " + number(rule.Burst) + " at once"
		}
		list = append(list, words)
	}
	return strings.Join(list, "; ")
}

// perWords returns a period after a number.
func perWords(per time.Duration) string {
	if words, ok := map[time.Duration]string{time.Second: "a second", time.Minute: "a minute", time.Hour: "an hour", 24 * time.Hour: "a day"}[per]; ok {
		return words
	}
	return "in " + lasting(per)
}

// limitsData is what the list of limits shows.
type limitsData struct {
	Scope       scope
	Rows        []limitRow
	Empty       string // a line of code
	First, Next string
}

// limits lists the records of limits, and asks for the state of each: the client lists those of one tenant only.
func (s *site) limits(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := limitsData{Scope: sc, Empty: `abide.NewLimit("stripe", abide.Concurrency(10), abide.Rate(100, time.Second))`}
	q := store.Query{Kind: kindLimit, Limit: limitRows, Cursor: r.value("cursor")}
	if sc.Asked != "" {
		q.Tenant = &tenantsOf(kindLimit, tenantName(sc.Asked))[0]
	}
	page, err := s.cfg.Store.List(r.ctx(), q)
	if err != nil {
		return view{}, err
	}
	for i := range page.Records {
		key := page.Records[i].Key
		info, err := s.limitsSeen.get(key, page.Records[i].Version, r.now(), func() (abide.LimitInfo, error) {
			return s.engine.Limit(r.ctx(), tenantName(key.Tenant), key.ID)
		})
		if errors.Is(err, abide.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return view{}, err
		}
		d.Rows = append(d.Rows, limitRowOf(info))
	}
	slices.SortFunc(d.Rows, func(a, b limitRow) int {
		if a.Tenant != b.Tenant {
			return strings.Compare(a.Tenant, b.Tenant)
		}
		return strings.Compare(a.Name, b.Name)
	})
	if q.Cursor != "" {
		d.First = s.with("/limits", "tenant", sc.Asked)
	}
	if page.Next != "" {
		d.Next = s.with("/limits", "tenant", sc.Asked, "cursor", page.Next)
	}
	return view{template: "limits", title: "Limits", section: "limits", live: "kinds=tick", data: &d}, nil
}

// limitRows is how many limits a page lists. Up to a thousand keys are looked at for each.
const limitRows = 20

// limitData is what the page of one limit shows.
type limitData struct {
	Limit    limitRow
	Verbs    []verbLink
	Commands []command
}

func (s *site) limit(r *request) (view, error) {
	info, err := s.gotLimit(r)
	if err != nil {
		return view{}, err
	}
	d := limitData{Limit: limitRowOf(info)}
	if r.can {
		d.Verbs = s.limitLinks(&info)
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, limitPath(info.Tenant, info.Name))},
		{"Copy as command", s.tool(r, "limits show "+shellQuote(info.Name)+tenantFlag(info.Tenant))},
	}
	return view{template: "limit", title: info.Name, section: "limits", live: "kinds=tick", data: &d}, nil
}

// gotLimit returns the limit in the path.
func (s *site) gotLimit(r *request) (abide.LimitInfo, error) {
	tenant, err := r.owner()
	if err != nil {
		return abide.LimitInfo{}, err
	}
	return s.engine.Limit(r.ctx(), tenantName(tenant), r.named("name"))
}

func (s *site) limitLinks(info *abide.LimitInfo) []verbLink {
	base := s.path(limitPath(info.Tenant, info.Name))
	list := []verbLink{{Label: "Pause", Href: base + "/pause"}}
	if info.Paused {
		list[0] = verbLink{Label: "Resume", Href: base + "/resume"}
	}
	list = append(list, verbLink{Label: "Change the rule", Href: base + "/set"})
	switch {
	case info.Set != nil && info.Declared != nil:
		list = append(list, verbLink{Label: "Use the rule of the code", Href: base + "/unset"})
	case info.Declared == nil:
		list = append(list, verbLink{Label: "Delete", Href: base + "/unset", Danger: true})
	}
	return list
}

// held returns a figure for the work that waits for limits which an operator has paused.
func (s *site) held(r *request) (figure, error) {
	f := figure{
		Label: "held by paused limits", Href: s.path("/limits"), Status: "paused",
		Text: "Nothing begins under them. Resume them, or terminate what waits.",
	}
	f.Why.All = true
	n, err := r.count(kindLimit, limitPaused)
	if err != nil || n == 0 {
		return f, err
	}
	var tenants []*string
	for _, name := range r.who.Tenants {
		tenants = append(tenants, &tenantsOf(kindLimit, name)[0])
	}
	if r.everything() {
		tenants = []*string{nil}
	}
	for _, tenant := range tenants {
		page, err := s.cfg.Store.List(r.ctx(), store.Query{Kind: kindLimit, Tenant: tenant, Statuses: []string{limitPaused}, Limit: limitRows})
		if err != nil {
			return f, err
		}
		for i := range page.Records {
			if err := s.heldBy(r, page.Records[i].Key, &f); err != nil {
				return f, err
			}
		}
		f.Over = f.Over || page.Next != ""
	}
	slices.SortStableFunc(f.Why.Groups, func(a, b reasonGroup) int { return b.Count - a.Count })
	return f, nil
}

// heldBy adds what waits for a limit.
func (s *site) heldBy(r *request, limit store.RecordKey, f *figure) error {
	n, err := s.cfg.Store.Count(r.ctx(), store.Query{Kind: kindLimitWait, Tenant: &limit.Tenant, Names: []string{limit.ID}}, countCap)
	if err != nil || n == 0 {
		return err
	}
	f.Count += n
	f.Why.Groups = append(f.Why.Groups, reasonGroup{
		Text: limit.ID + " of " + tenantName(limit.Tenant), Count: n, Href: s.path(limitPath(limit.Tenant, limit.ID)),
	})
	return nil
}

// limitVerbs are what can be done to a limit.
func (s *site) limitVerbs() []verb {
	yes, no := true, false
	return []verb{
		s.newLimitVerb(),
		s.limitVerb("set", func(info *abide.LimitInfo) form {
			return form{
				Title: "Change the rule of " + info.Name, Submit: "Save", Fields: ruleFields(info.Rule()),
				Text: "It counts in all processes, and stays until it is changed again: what code declares does not count meanwhile. What is under way goes on.",
			}
		}, func(r *request, info *abide.LimitInfo) (abide.LimitChange, string, error) {
			rule, err := ruleFrom(r)
			return abide.LimitChange{Set: &rule, PerKey: info.PerKey}, "limit-set", err
		}),
		s.limitVerb("pause", func(info *abide.LimitInfo) form {
			return form{Title: "Pause " + info.Name + "?", Submit: "Pause", Text: "Nothing more begins under it until it is resumed. What is under way goes on, and what waits keeps its place."}
		}, func(*request, *abide.LimitInfo) (abide.LimitChange, string, error) {
			return abide.LimitChange{Paused: &yes}, "limit-paused", nil
		}),
		s.limitVerb("resume", func(info *abide.LimitInfo) form {
			return form{Title: "Resume " + info.Name + "?", Submit: "Resume", Text: "What waits begins, as far as the rule allows."}
		}, func(*request, *abide.LimitInfo) (abide.LimitChange, string, error) {
			return abide.LimitChange{Paused: &no}, "limit-resumed", nil
		}),
		s.limitVerb("unset", unsetForm, func(_ *request, info *abide.LimitInfo) (abide.LimitChange, string, error) {
			notice := "limit-unset"
			if info.Declared == nil {
				notice = "deleted"
			}
			return abide.LimitChange{Unset: true}, notice, nil
		}),
	}
}

func unsetForm(info *abide.LimitInfo) form {
	if info.Declared == nil {
		return form{
			Title: "Delete " + info.Name + "?", Submit: "Delete", Danger: true,
			Text: "No code has declared it. What waits under it begins. Work that names it makes it again, with the rule that its code has then.",
		}
	}
	return form{
		Title: "Use the rule of the code for " + info.Name + "?", Submit: "Use it",
		Text: "The rule is then " + ruleWords(*info.Declared) + ", as code has declared it last.",
	}
}

// limitVerb returns a verb about the limit in the path.
func (s *site) limitVerb(name string, ask func(*abide.LimitInfo) form, change func(*request, *abide.LimitInfo) (abide.LimitChange, string, error)) verb {
	operation := name + "-limit" // as the API has it
	if name == "set" {
		operation = "change-limit"
	}
	return verb{
		pattern: "/limits/{tenant}/{name}/" + name, section: "limits", operation: operation,
		form: func(r *request) (form, error) {
			info, err := s.gotLimit(r)
			if err != nil {
				return form{}, err
			}
			f := ask(&info)
			f.Back = s.path(limitPath(info.Tenant, info.Name))
			return f, nil
		},
		apply: func(r *request) (done, error) {
			info, err := s.gotLimit(r)
			if err != nil {
				return done{}, err
			}
			d := done{target: info.Tenant + "/" + info.Name, to: s.path(limitPath(info.Tenant, info.Name))}
			c, notice, err := change(r, &info)
			if err != nil {
				return d, err
			}
			if d.notice = notice; notice == "deleted" {
				d.to = s.path("/limits")
			}
			_, err = s.engine.ChangeLimit(r.ctx(), info.Tenant, info.Name, c)
			return d, err
		},
	}
}

// newLimitVerb makes a limit that no code has declared yet.
func (s *site) newLimitVerb() verb {
	return verb{
		pattern: "/limits/new", section: "limits", operation: "change-limit",
		form: func(r *request) (form, error) {
			sc, err := r.scope()
			return form{
				Title: "Make a limit", Submit: "Make it", Back: s.path("/limits"),
				Text: "Work is under it that names it in code. Code that declares another rule for it does not change this one.",
				Fields: append([]field{
					{Name: "name", Label: "Name", Kind: "text", Required: true, Value: r.value("name"), Example: "stripe"},
					{Name: "tenant", Label: "Tenant", Kind: "text", Value: sc.Asked, Example: abide.DefaultTenant},
					{Name: "perkey", Label: "Each key has a limit of its own", Kind: "check", Value: r.value("perkey")},
				}, ruleFields(abide.LimitRule{})...),
			}, err
		},
		apply: func(r *request) (done, error) {
			tenant, name := tenantName(r.value("tenant")), r.value("name")
			if err := r.allow(tenant); err != nil {
				return done{}, err
			}
			d := done{target: tenant + "/" + name, to: s.path(limitPath(tenant, name)), notice: "limit-set"}
			if name == "" {
				return d, mistake("The limit needs a name.")
			}
			rule, err := ruleFrom(r)
			if err != nil {
				return d, err
			}
			if _, err := s.engine.Limit(r.ctx(), tenant, name); err == nil {
				return d, mistake("There is a limit of that name already. Change its rule on its page.")
			}
			_, err = s.engine.ChangeLimit(r.ctx(), tenant, name, abide.LimitChange{Set: &rule, PerKey: r.value("perkey") != ""})
			return d, err
		},
	}
}

// ruleFields are the fields of a form for a rule.
func ruleFields(rule abide.LimitRule) []field {
	text := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	return []field{
		{Name: "concurrency", Label: "At a time", Kind: "text", Value: text(rule.Concurrency), Example: "10", Help: "How many may be under way. Empty: any number."},
		{Name: "rate", Label: "Rate", Kind: "text", Value: text(rule.Rate), Example: "100", Help: "How many may begin in each period. Empty: any number."},
		{Name: "per", Label: "Period of the rate", Kind: "text", Value: span(rule.Per), Example: "1s", Help: spanHelp + "."},
		{Name: "burst", Label: "Burst", Kind: "text", Value: text(rule.Burst), Help: "How many may begin at once after a pause. Empty: a tenth of a second of the rate."},
	}
}

// ruleFrom returns the rule that a form says. The engine checks it.
func ruleFrom(r *request) (rule abide.LimitRule, err error) {
	for _, f := range []struct {
		name, label string
		to          *int
	}{{"concurrency", "At a time", &rule.Concurrency}, {"rate", "Rate", &rule.Rate}, {"burst", "Burst", &rule.Burst}} {
		if *f.to, err = parseCount(f.label, strings.ReplaceAll(r.value(f.name), ",", "")); err != nil {
			return rule, err
		}
	}
	if rule.Per, err = parseSpan("Period of the rate", r.value("per")); err != nil {
		return rule, err
	}
	switch {
	case rule.Concurrency == 0 && rule.Rate == 0:
		return rule, mistake("A limit needs how many may be under way at a time, or a rate. To let nothing begin, pause it.")
	case rule.Rate > 0 && rule.Per == 0:
		return rule, mistake("The rate needs a period, such as 1s.")
	case rule.Rate == 0:
		rule.Per, rule.Burst = 0, 0 // the form was filled in, and the rate was taken away
	}
	return rule, nil
}
