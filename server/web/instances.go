package web

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/operation"
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
	Status        string
	From, To      string
	Tag           string
	Cursor        string
}

func (r *request) search() (search, error) {
	sc, err := r.scope()
	return search{
		Scope: sc, Orchestration: r.value("orchestration"), Status: r.value("status"),
		From: r.value("from"), To: r.value("to"), Tag: r.value("tag"), Cursor: r.value("cursor"),
	}, err
}

// pairs returns the search as names and values, without the place in the list.
func (q search) pairs() []string {
	return []string{"tenant", q.Scope.Asked, "orchestration", q.Orchestration, "status", q.Status, "from", q.From, "to", q.To, "tag", q.Tag}
}

// Empty reports whether nothing was asked for, so that there is nothing at all if nothing
// was found.
func (q search) Empty() bool {
	return (q.Scope.Asked == "" || q.Scope.Choices != nil) && q.Orchestration == "" && q.Status == "" && q.From == "" && q.To == "" &&
		q.Tag == "" && q.Cursor == ""
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
	if q.Status != "" {
		if !slices.Contains(statuses, abide.Status(q.Status)) {
			return f, mistake("There is no status " + q.Status + ".")
		}
		f.Statuses = []abide.Status{abide.Status(q.Status)}
	}
	if f.From, err = parseTime("Started from", q.From, now); err != nil {
		return f, err
	}
	if f.To, err = parseTime("Started to", q.To, now); err != nil {
		return f, err
	}
	if q.Tag != "" {
		name, value, found := strings.Cut(q.Tag, "=")
		if !found || name == "" {
			return f, mistake("A tag is written as name=value, such as customer=17.")
		}
		f.Tags = map[string]string{name: value}
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
}

// instancesData is what the list of instances shows.
type instancesData struct {
	Search         search
	Statuses       []abide.Status
	Orchestrations []string
	Rows           []instanceRow
	First, Next    string
	Error          string
	Kinds          []bulkKind
	All            string // the address of the form for all that match
	JumpMissed     string
}

func (s *site) instances(r *request) (view, error) {
	q, err := r.search()
	if err != nil {
		return view{}, err
	}
	d := instancesData{Search: q, Statuses: statuses, Kinds: bulkKinds, Orchestrations: s.orchestrations(r)}
	v := view{template: "instances", title: "Instances", section: "instances", live: "kinds=instances", data: &d}
	if id := r.value("id"); id != "" {
		ref := abide.Ref{Tenant: tenantName(q.Scope.Asked), ID: id}
		if _, err := s.engine.Get(r.ctx(), ref); err == nil {
			return view{}, &jump{to: s.path(instancePath(ref))}
		}
		d.JumpMissed = id
	}
	var f abide.Filter
	if f, d.Error = q.tryFilter(r.now()); d.Error != "" {
		return v, nil
	}
	f.Descending, f.Limit, f.Cursor = true, rows, q.Cursor
	page, err := s.engine.List(r.ctx(), f)
	if err != nil {
		return view{}, err
	}
	for i := range page.Instances {
		in := page.Instances[i]
		d.Rows = append(d.Rows, instanceRow{Info: in, Value: refValue(in.Ref)})
	}
	if q.Cursor != "" {
		d.First = s.with("/instances", q.pairs()...)
	}
	if page.Next != "" {
		d.Next = s.with("/instances", append(q.pairs(), "cursor", page.Next)...)
	}
	if s.cfg.Operations != nil {
		d.All = s.with("/instances/matching", q.pairs()...)
	}
	return v, nil
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

// refValue returns an instance as one value of a form.
func refValue(ref abide.Ref) string {
	return url.QueryEscape(ref.Tenant) + "/" + url.QueryEscape(ref.ID)
}

// parseRef is the inverse of refValue.
func parseRef(value string) (abide.Ref, error) {
	tenant, id, found := strings.Cut(value, "/")
	t, err1 := url.QueryUnescape(tenant)
	i, err2 := url.QueryUnescape(id)
	if !found || err1 != nil || err2 != nil || i == "" {
		return abide.Ref{}, mistake("A selected row cannot be read.")
	}
	return abide.Ref{Tenant: t, ID: i}, nil
}

// bulkKind is what can be done to many instances.
type bulkKind struct {
	Kind   string
	Label  string
	Text   string
	Danger bool
}

// bulkKinds are all of them.
var bulkKinds = []bulkKind{
	{"suspend", "Suspend", "Each waits until it is resumed. What reaches it meanwhile is kept.", false},
	{"resume", "Resume", "Each that is suspended or has stalled goes on.", false},
	{"cancel", "Cancel", "Each is asked to come to an end, and its code decides how.", true},
	{"terminate", "Terminate", "Each is ended at once, without asking its code. Nothing is undone.", true},
	{"restart", "Restart", "Each that has ended is started once more with the same input. Its old history goes.", true},
	{"delete", "Delete", "Each that has ended is removed with its history, for good.", true},
}

func bulkOf(kind string) (bulkKind, error) {
	for _, k := range bulkKinds {
		if k.Kind == kind {
			return k, nil
		}
	}
	return bulkKind{}, mistake("Choose what to do.")
}

// maxSelected is how many rows can be selected.
const maxSelected = 100

// selected returns the rows that were selected, which must be the caller's.
func (r *request) selected() ([]abide.Ref, error) {
	if err := r.ParseForm(); err != nil {
		return nil, formError(err)
	}
	values := r.Form["instance"]
	if len(values) == 0 {
		return nil, mistake("No row is selected. Go back, and tick the boxes of those that you mean.")
	}
	if len(values) > maxSelected {
		return nil, mistake("At most 100 rows can be selected. Take all that match the filter instead.")
	}
	refs := make([]abide.Ref, len(values))
	for i, value := range values {
		ref, err := parseRef(value)
		if err != nil {
			return nil, err
		}
		if err := r.allow(ref.Tenant); err != nil {
			return nil, err
		}
		refs[i] = ref
	}
	return refs, nil
}

// selectedVerb does something to the rows that were selected, one after another.
func (s *site) selectedVerb() verb {
	return verb{
		pattern: "/instances/selected", section: "instances", operation: "change-instances",
		form: func(r *request) (form, error) {
			refs, err := r.selected()
			if err != nil {
				return form{}, err
			}
			k, err := bulkOf(r.value("kind"))
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: k.Label + " " + plural(len(refs), "instance", "instances"), Text: k.Text, Submit: k.Label, Danger: k.Danger,
				Back: s.path("/instances"), Fields: []field{{Name: "kind", Kind: "hidden", Value: k.Kind}, reasonField()},
			}
			for _, ref := range refs {
				f.Fields = append(f.Fields, field{Name: "instance", Kind: "hidden", Value: refValue(ref)})
			}
			return f, nil
		},
		apply: func(r *request) (done, error) {
			d := done{to: s.path("/instances")}
			refs, err := r.selected()
			if err != nil {
				return d, err
			}
			k, err := bulkOf(r.value("kind"))
			if err != nil {
				return d, err
			}
			d.noted = true
			var failed []string
			for _, ref := range refs {
				err := s.change(r.ctx(), k.Kind, ref, r.value("reason"))
				s.note(r, k.Kind+"-instance", ref.Tenant, target(ref), err)
				if err != nil {
					failed = append(failed, ref.Tenant+"/"+ref.ID+": "+explain(err).text)
				}
			}
			if len(failed) > 0 {
				return d, &refusal{status: 409, title: "Not all of them", text: plural(len(refs)-len(failed), "was", "were") +
					" changed, and " + number(len(failed)) + " not. " + strings.Join(failed[:min(len(failed), 5)], " ")}
			}
			d.notice = "changed"
			return d, nil
		},
	}
}

// change does one of bulkKinds to one instance.
func (s *site) change(ctx context.Context, kind string, ref abide.Ref, why string) error {
	e := s.engine
	switch kind {
	case "suspend":
		return e.Suspend(ctx, ref, why)
	case "resume":
		return e.Resume(ctx, ref)
	case "cancel":
		return e.Cancel(ctx, ref, why)
	case "terminate":
		return e.Terminate(ctx, ref, why)
	case "restart":
		return e.Restart(ctx, ref)
	case "delete":
		return e.Delete(ctx, ref)
	default:
		return mistake("Choose what to do.")
	}
}

// matchingVerb does something to all instances that match a filter, as an operation that
// goes on by itself.
func (s *site) matchingVerb() verb {
	return verb{
		pattern: "/instances/matching", section: "instances", operation: "start-operation",
		form: func(r *request) (form, error) {
			q, err := r.search()
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: "Change all that match", Submit: "Start the operation", Danger: true, Back: s.with("/instances", q.pairs()...),
				Text: "It goes on by itself, also when you close the page, and can be followed and stopped under Operations. It is about " + q.words() + ".",
			}
			kinds := make([]option, len(bulkKinds))
			for i, k := range bulkKinds {
				kinds[i] = option{Value: k.Kind, Label: k.Label + ": " + strings.ToLower(k.Text[:1]) + k.Text[1:]}
			}
			f.Fields = []field{{Name: "kind", Label: "What to do", Kind: "choice", Options: kinds, Required: true, Value: r.value("kind")}, reasonField()}
			pairs := q.pairs()
			for i := 0; i+1 < len(pairs); i += 2 {
				f.Fields = append(f.Fields, field{Name: pairs[i], Kind: "hidden", Value: pairs[i+1]})
			}
			return f, nil
		},
		apply: func(r *request) (done, error) {
			q, err := r.search()
			if err != nil {
				return done{}, err
			}
			f, err := q.filter(r.now())
			if err != nil {
				return done{}, err
			}
			k, err := bulkOf(r.value("kind"))
			if err != nil {
				return done{}, err
			}
			op, err := s.cfg.Operations.Start(r.ctx(), operation.Request{Kind: operation.Kind(k.Kind), Filter: f, All: f.Tenant == nil, Reason: r.value("reason"), By: r.who.Subject})
			return done{target: k.Kind + " " + q.words(), to: s.operationPath(op), notice: "begun"}, err
		},
	}
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
	add("with status", q.Status)
	add("started from", q.From)
	add("started before", q.To)
	add("with tag", q.Tag)
	if len(parts) == 0 {
		return "all instances of all tenants"
	}
	return "all instances " + strings.Join(parts, ", ")
}

func reasonField() field {
	return field{Name: "reason", Label: "Reason", Kind: "text", Help: "Why, for those who look at it later. It may stay empty."}
}
