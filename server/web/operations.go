package web

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/server/operation"
)

func (s *site) addOperations() {
	s.section("operations", "/operations", "Operations")
	s.page("GET /operations", s.operations)
	s.page("GET /operations/{tenant}/{id}", s.operation)
	s.verb(s.stopVerb())
}

// operationPath is the path of an operation. The tenant of one about all tenants is empty.
func (s *site) operationPath(op operation.Operation) string {
	return s.path("/operations/" + segment(op.Tenant()) + "/" + segment(op.ID))
}

// operationRow is an operation, with what it is about in words.
type operationRow struct {
	operation.Operation
	Path  string
	Title string
	Words string
	Left  int // how many there are to look at, at least what is done
}

func (s *site) operationOf(op operation.Operation) operationRow {
	var q search
	f := op.Filter
	q.Scope.Asked = op.Tenant()
	q.Orchestration = strings.Join(f.Orchestrations, ", ")
	for _, status := range f.Statuses {
		q.Statuses = append(q.Statuses, string(status))
	}
	q.Prefix, q.Parent, q.Build = f.Prefix, f.Parent, f.Build
	q.From, q.To = zonedValue(f.From), zonedValue(f.To)
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(f.Tags)) {
		tags = append(tags, name+"="+f.Tags[name])
	}
	q.Tag = strings.Join(tags, ",")
	row := operationRow{Operation: op, Path: s.operationPath(op), Words: q.words(), Left: max(op.Total, op.Matched)}
	row.Title = bulkLabel(string(op.Kind)) + " all that match"
	if row.Left > 0 {
		row.Title = bulkLabel(string(op.Kind)) + " " + plural(row.Left, "instance", "instances")
	}
	return row
}

// zonedValue writes a time for people, with its zone.
func zonedValue(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return timeValue(t) + " UTC"
}

// operationsData is what the list of operations shows.
type operationsData struct {
	Scope       scope
	Rows        []operationRow
	First, Next string
}

func (s *site) operations(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	page, err := s.cfg.Operations.List(r.ctx(), operation.Query{Tenant: sc.Asked, Limit: rows, Cursor: r.value("cursor")})
	if err != nil {
		return view{}, err
	}
	d := operationsData{Scope: sc}
	for _, op := range page.Operations {
		d.Rows = append(d.Rows, s.operationOf(op))
	}
	if r.value("cursor") != "" {
		d.First = s.with("/operations", "tenant", sc.Asked)
	}
	if page.Next != "" {
		d.Next = s.with("/operations", "tenant", sc.Asked, "cursor", page.Next)
	}
	return view{template: "operations", title: "Operations", section: "operations", live: "kinds=tick", data: &d}, nil
}

// gotOperation returns the operation in the path. One about all tenants is for those who
// have all of them.
func (s *site) gotOperation(r *request) (operation.Operation, error) {
	tenant := r.named("tenant")
	allowed := r.onlyEverything
	if tenant != "" {
		allowed = func() error { return r.allow(tenant) }
	}
	if err := allowed(); err != nil {
		return operation.Operation{}, err
	}
	return s.cfg.Operations.Get(r.ctx(), tenant, r.named("id"))
}

func (s *site) operation(r *request) (view, error) {
	op, err := s.gotOperation(r)
	if err != nil {
		return view{}, err
	}
	d := struct {
		Row   operationRow
		Verbs []verbLink
	}{Row: s.operationOf(op)}
	if r.can && !op.Status.Ended() {
		d.Verbs = []verbLink{{Label: "Stop", Href: d.Row.Path + "/cancel", Danger: true}}
	}
	return view{template: "operation", title: "Operation", section: "operations", live: "kinds=tick", data: &d}, nil
}

func (s *site) stopVerb() verb {
	return verb{
		pattern: "/operations/{tenant}/{id}/cancel", section: "operations", operation: "cancel-operation",
		form: func(r *request) (form, error) {
			op, err := s.gotOperation(r)
			return form{
				Title: "Stop the operation?", Submit: "Stop", Danger: true, Back: s.operationPath(op),
				Text: "What it has done is done. The other instances stay as they are.",
			}, err
		},
		apply: func(r *request) (done, error) {
			op, err := s.gotOperation(r)
			if err != nil {
				return done{}, err
			}
			_, err = s.cfg.Operations.Cancel(r.ctx(), op.Tenant(), op.ID)
			return done{target: op.ID, to: s.operationPath(op), notice: "stopped"}, err
		},
	}
}
