package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/operation"
)

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
	{"suspend", "Suspend", "Each pauses until it is resumed. Events and timers are kept meanwhile.", false},
	{"resume", "Resume", "Each that is suspended or stalled continues.", false},
	{"cancel", "Cancel", "Each receives a cancellation request, and its code decides how to end.", true},
	{"terminate", "Terminate", "Each ends at once, without running its code. Nothing is undone.", true},
	{"restart", "Restart", "Each that has ended starts again with the same input. Its old history is deleted.", true},
	{"rewind", "Rewind", "Each that has failed continues from before its failure. What has succeeded does not run again.", false},
	{"delete", "Delete", "Each that has ended is deleted with its history.", true},
}

// bulkLabel returns the label of a kind.
func bulkLabel(kind string) string {
	if k, err := bulkOf(kind); err == nil {
		return k.Label
	}
	return kind
}

func bulkOf(kind string) (bulkKind, error) {
	for _, k := range bulkKinds {
		if k.Kind == kind {
			return k, nil
		}
	}
	return bulkKind{}, mistake("Choose what to do.")
}

// errNoneSelected: a change of the selected rows, and none is.
var errNoneSelected = mistake("No row is ticked. Tick the boxes of those that you mean.")

// back returns the list that a form was opened from, with its filter.
func (r *request) back() string {
	list := r.site.path("/instances")
	if from := r.value("back"); strings.HasPrefix(from, list+"?") {
		return from
	}
	return list
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
		return nil, errNoneSelected
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
			if errors.Is(err, errNoneSelected) && r.Method == http.MethodGet {
				return form{}, &jump{to: noted(r.back(), "none-ticked")}
			}
			if err != nil {
				return form{}, err
			}
			k, err := bulkOf(r.value("kind"))
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: k.Label + " " + plural(len(refs), "instance", "instances"), Text: k.Text, Submit: k.Label, Danger: k.Danger,
				Back: r.back(), Fields: []field{{Name: "kind", Kind: "hidden", Value: k.Kind}, {Name: "back", Kind: "hidden", Value: r.back()}, reasonField()},
			}
			for _, ref := range refs {
				f.Fields = append(f.Fields, field{Name: "instance", Kind: "hidden", Value: refValue(ref)})
			}
			return f, nil
		},
		apply: func(r *request) (done, error) {
			d := done{to: r.back()}
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
	case "rewind":
		return e.Rewind(ctx, ref, why)
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
			if err := q.bulk(); err != nil {
				return form{}, err
			}
			n, known, err := r.countMatching(q)
			if err != nil {
				return form{}, err
			}
			f := form{
				Title: "Change " + matchingWords(n, known), Submit: "Start the operation", Danger: true, Back: s.with("/instances", q.pairs()...),
				Text: "Matching: " + q.words() + ". The operation continues when you close the page. Follow and stop it under Operations.",
			}
			kinds := make([]option, len(bulkKinds))
			for i, k := range bulkKinds {
				kinds[i] = option{Value: k.Kind, Label: k.Label + ": " + strings.ToLower(k.Text[:1]) + k.Text[1:]}
			}
			f.Fields = []field{{Name: "kind", Label: "What to do", Kind: "choice", Options: kinds, Required: true, Value: r.value("kind")}, reasonField(),
				confirmField(q, n, known), {Name: "counted", Kind: "hidden", Value: confirmText(n, known)}}
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
			if err := q.bulk(); err != nil {
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
			if err := r.confirmed(q, k); err != nil {
				return done{}, err
			}
			op, err := s.cfg.Operations.Start(r.ctx(), operation.Request{Kind: operation.Kind(k.Kind), Filter: f, All: f.Tenant == nil, Reason: r.value("reason"), By: r.who.Subject})
			return done{target: k.Kind + " " + q.words(), to: s.operationPath(op), notice: "begun"}, err
		},
	}
}

func reasonField() field {
	return field{Name: "reason", Label: "Reason", Kind: "text", Help: "Why, for those who look at it later. It may stay empty."}
}
