package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// rows is how many things a page of a list shows.
const rows = 50

// statuses are those that an instance can have in a list.
var statuses = []abide.Status{
	abide.Running, abide.Pending, abide.Suspended, abide.Stalled, abide.Completed, abide.Failed, abide.Cancelled, abide.Terminated,
}

func (s *site) addInstances() {
	s.section("instances", "/instances", "Instances")
	s.page("GET /instances", s.instances)
	s.page("GET /instances/{tenant}/{id}", s.instance)
	s.mux.HandleFunc("GET /instances/{tenant}/{id}/history.json", s.rawHistory)
	s.verb(s.startVerb())
	for _, v := range s.instanceVerbs() {
		s.verb(v)
	}
	s.verb(s.selectedVerb())
	if s.cfg.Operations != nil {
		s.verb(s.matchingVerb())
	}
}

func instancePath(ref abide.Ref) string {
	return "/instances/" + segment(ref.Tenant) + "/" + segment(ref.ID)
}

// search is what the list of instances was asked for, as it stands in the address.
type search struct {
	Scope         scope
	Orchestration string
	Statuses      []string
	From, To      string
	Tag           string // name=value, several with commas between them
	Prefix        string // of the ID
	Parent        string
	Build         string
	Cursor        string
	Trail         []string // cursors of the pages before, firstPage for the first one

	// Ended and Why select among what the engine lists: instances that ended at that time or
	// later, and those whose reason has that key, see reasonKey.
	Ended string
	Why   string
}

func (r *request) search() (search, error) {
	sc, err := r.scope()
	return search{
		Scope: sc, Orchestration: r.value("orchestration"), Statuses: r.values("status"),
		From: r.value("from"), To: r.value("to"), Tag: r.value("tag"), Cursor: r.value("cursor"),
		Ended: r.value("ended"), Why: r.value("why"), Prefix: r.value("prefix"), Parent: r.value("parent"), Build: r.value("build"), Trail: r.Form["trail"],
	}, err
}

// pairs returns the search as names and values, without the place in the list.
func (q search) pairs() []string {
	return []string{"tenant", q.Scope.Asked, "orchestration", q.Orchestration, "status", strings.Join(q.Statuses, ","), "from", q.From, "to", q.To, "tag", q.Tag,
		"prefix", q.Prefix, "parent", q.Parent, "build", q.Build, "ended", q.Ended, "why", q.Why}
}

// Empty reports whether nothing was asked for, so that there is nothing at all if nothing
// was found.
func (q search) Empty() bool {
	return (q.Scope.Asked == "" || q.Scope.Choices != nil) && q.Orchestration == "" && len(q.Statuses) == 0 && q.From == "" && q.To == "" &&
		q.Tag == "" && q.Prefix == "" && q.Parent == "" && q.Build == "" && q.Cursor == "" && !q.Sifted()
}

// Sifted reports whether the page selects among the instances that the engine lists.
func (q search) Sifted() bool { return q.Ended != "" || q.Why != "" }

// Has reports whether a status was asked for.
func (q search) Has(status abide.Status) bool { return slices.Contains(q.Statuses, string(status)) }

// WithoutSift returns the address of the same list without Ended and Why.
func (q search) WithoutSift() []string {
	q.Ended, q.Why = "", ""
	return q.pairs()
}

// filter returns what to ask the engine for.
func (q search) filter(now time.Time) (abide.Filter, error) {
	var f abide.Filter
	var err error
	if q.Scope.Asked != "" {
		f.Tenant = &q.Scope.Asked
	}
	if q.Orchestration != "" {
		f.Orchestrations = []string{q.Orchestration}
	}
	for _, status := range q.Statuses {
		if !slices.Contains(statuses, abide.Status(status)) {
			return f, mistake("There is no status " + status + ".")
		}
		f.Statuses = append(f.Statuses, abide.Status(status))
	}
	f.Prefix, f.Parent, f.Build = q.Prefix, q.Parent, q.Build
	if f.From, err = parsePast("Started from", q.From, now); err != nil {
		return f, err
	}
	if f.To, err = parsePast("Started to", q.To, now); err != nil {
		return f, err
	}
	if _, err = parsePast("Ended", q.Ended, now); err != nil {
		return f, err
	}
	for tag := range strings.SplitSeq(q.Tag, ",") {
		if tag = strings.TrimSpace(tag); tag == "" {
			continue
		}
		name, value, err := api.ParseTyped(tag)
		if err != nil {
			return f, mistake("A tag is written as name=value, such as customer=17; several have commas between them: " + err.Error())
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[name] = value
	}
	return f, nil
}

// tryFilter is filter for a page that says what is wrong where it is wrong.
func (q search) tryFilter(now time.Time) (f abide.Filter, wrong string) {
	f, err := q.filter(now)
	if err != nil {
		wrong = err.Error()
	}
	return f, wrong
}

// instanceRow is an instance in a list.
type instanceRow struct {
	abide.Info
	Value string // what a selected row is sent as
	Why   string // the first line of its reason
}

// instancesData is what the list of instances shows.
type instancesData struct {
	Search         search
	Statuses       []abide.Status
	Orchestrations []string
	Rows           []instanceRow
	Whys           bool // a row has a reason
	First, Next    string
	Previous       string
	Total          string // how many match
	Error          string
	Kinds          []bulkKind
	All            string // the address of the form for all that match
	Here           string // the address of the list, without the place in it
	Unsifted       string // the address of the list without what the page selects by itself
	JumpMissed     string
}

func (s *site) instances(r *request) (view, error) {
	q, err := r.search()
	if err != nil {
		return view{}, err
	}
	d := instancesData{Search: q, Statuses: statuses, Kinds: bulkKinds, Here: s.with("/instances", q.pairs()...), Orchestrations: s.orchestrations(r)}
	v := view{template: "instances", title: "Instances", section: "instances", live: "kinds=instances", data: &d}
	if id := r.value("id"); id != "" {
		ref := abide.Ref{Tenant: tenantName(q.Scope.Asked), ID: id}
		if _, err := s.engine.Get(r.ctx(), ref); err == nil {
			return view{}, &jump{to: s.path(instancePath(ref))}
		}
		d.JumpMissed = id
		q.Prefix = id
		d.Search, d.Here = q, s.with("/instances", q.pairs()...)
	}
	var f abide.Filter
	if f, d.Error = q.tryFilter(r.now()); d.Error != "" {
		return v, nil
	}
	f.Descending, f.Limit, f.Cursor = true, rows, q.Cursor
	var next string
	if d.Rows, next, err = s.listed(r, q, f); err != nil {
		return view{}, err
	}
	d.Whys = slices.ContainsFunc(d.Rows, func(row instanceRow) bool { return row.Why != "" })
	d.First, d.Previous, d.Next = s.pagesOf(q, next)
	if !q.Sifted() && len(d.Rows) > 0 {
		if n, known, err := r.countMatching(q); err == nil && known {
			d.Total = matchingWords(n, known)
		}
	}
	if q.Sifted() {
		d.Unsifted = s.with("/instances", q.WithoutSift()...)
	}
	if s.cfg.Operations != nil && q.bulk() == nil {
		d.All = s.with("/instances/matching", q.pairs()...)
	}
	return v, nil
}

// firstPage stands for the first page in a trail, which has no cursor, and maxTrail is how many
// pages a trail leads back.
const (
	firstPage = "-"
	maxTrail  = 20
)

// pagesOf returns the addresses of the pages around one.
func (s *site) pagesOf(q search, next string) (first, previous, following string) {
	address := func(cursor string, trail []string) string {
		pairs := append(q.pairs(), "cursor", strings.TrimPrefix(cursor, firstPage))
		for _, one := range trail[max(0, len(trail)-maxTrail):] {
			pairs = append(pairs, "trail", one)
		}
		return s.with("/instances", pairs...)
	}
	if q.Cursor != "" {
		first = address("", nil)
	}
	if n := len(q.Trail); n > 0 {
		previous = address(q.Trail[n-1], q.Trail[:n-1])
	}
	if next != "" {
		following = address(next, append(slices.Clone(q.Trail), cmp.Or(q.Cursor, firstPage)))
	}
	return first, previous, following
}

// bulk returns an error for a search whose instances cannot all be changed at once: operations
// select as the engine does, and not as the page.
func (q search) bulk() error {
	if q.Sifted() {
		return mistake("All that match a reason or the time of their end cannot be changed at once. Tick the rows instead.")
	}
	return nil
}

// maxSifted is how many instances one page of a sifted list reads.
const maxSifted = 500

// listed returns a page of the list, and the cursor of the next one. A sifted page may have
// fewer rows than there is room for, even none, and a next one.
func (s *site) listed(r *request, q search, f abide.Filter) (list []instanceRow, next string, err error) {
	ended, err := parseTime("Ended", q.Ended, r.now())
	if err != nil {
		return nil, "", err
	}
	for read := 0; ; {
		page, err := s.engine.List(r.ctx(), f)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Instances {
			in := &page.Instances[i]
			why := reasonOf(in)
			if in.EndedAt.Before(ended) || q.Why != "" && reasonKey(why) != q.Why {
				continue
			}
			list = append(list, instanceRow{Info: *in, Value: refValue(in.Ref), Why: why})
		}
		read += len(page.Instances)
		f.Cursor = page.Next
		if page.Next == "" || !q.Sifted() || len(list) >= rows || read >= maxSifted {
			return list, page.Next, nil
		}
	}
}

// jump is an error that leads to another page.
type jump struct{ to string }

func (j *jump) Error() string { return "elsewhere: " + j.to }

// orchestrations returns the names that workers serve, to choose from. It is a help and no
// more, so that none are no error.
func (s *site) orchestrations(r *request) []string {
	if !r.everything() {
		return nil
	}
	workers, err := s.engine.Workers(r.ctx())
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for i := range workers {
		for _, route := range workers[i].Orchestrations {
			name, _, _ := strings.Cut(route, "@")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// words returns the search for people.
func (q search) words() string {
	var parts []string
	add := func(text, value string) {
		if value != "" {
			parts = append(parts, text+" "+value)
		}
	}
	add("of tenant", q.Scope.Asked)
	add("of orchestration", q.Orchestration)
	add("with status", strings.Join(q.Statuses, " or "))
	add("started from", q.From)
	add("started before", q.To)
	add("with tag", q.Tag)
	add("with an ID that begins with", q.Prefix)
	add("started by", q.Parent)
	if len(parts) == 0 {
		return "all instances of all tenants"
	}
	return "all instances " + strings.Join(parts, ", ")
}
