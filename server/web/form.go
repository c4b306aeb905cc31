package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/abidehq/abide/server/auth"
)

// form is what a person fills in before something is changed. With scripts it opens in a
// dialog; without them it is a page. It says what will happen, so that it is also how the
// page asks before it destroys something.
type form struct {
	Title  string
	Text   string
	Fields []field
	Submit string
	Danger bool
	Back   string // the page to go back to
	Error  string

	// Preview is the page that shows when the schedule that is filled in runs, which a script
	// shows in the form. Empty means that the form is about none.
	Preview string
}

// field is an input of a form.
type field struct {
	Name  string
	Label string
	Help  string

	// Kind is text, area, code, choice, check or hidden.
	Kind string

	Value    string
	Example  string // shown while it is empty
	Required bool
	Options  []option // of a choice, or those that a text suggests
	More     bool     // few people need it: it is folded away unless it is filled in
}

// option is one of several values.
type option struct {
	Value string
	Label string
}

// HasMore reports whether there are fields that are folded away.
func (f form) HasMore() bool {
	return slices.ContainsFunc(f.Fields, func(one field) bool { return one.More })
}

// MoreSet reports whether one of them is filled in, so that nobody overlooks it.
func (f form) MoreSet() bool {
	return slices.ContainsFunc(f.Fields, func(one field) bool {
		return one.More && one.Value != "" && (one.Kind != "choice" || one.Value != one.Options[0].Value)
	})
}

// Checked reports whether the box of a check is ticked.
func (f field) Checked() bool { return f.Value != "" }

func options(values ...string) []option {
	list := make([]option, len(values))
	for i, v := range values {
		list[i] = option{Value: v, Label: v}
	}
	return list
}

// verb is a form, and what it does.
type verb struct {
	// pattern is the path of the form, and where it is sent.
	pattern string

	section string

	// operation is what the audit log calls it, the same as the API does.
	operation string

	// form returns the form; it is called again if what was filled in is not right.
	form func(*request) (form, error)

	// apply does it, and returns what it was done to, and where to go and what to say then.
	apply func(*request) (done, error)
}

// done is what a verb has come to.
type done struct {
	target string // for the audit log
	noted  bool   // it is there already, one by one
	to     string // the page to show next
	notice string // one of notices
}

// maxForm is the largest form, in bytes.
const maxForm = 2 << 20

// verb adds a form: who only looks does not get to see it.
func (s *site) verb(v verb) {
	s.mux.HandleFunc("GET "+v.pattern, func(w http.ResponseWriter, r *http.Request) {
		req := s.request(r)
		f, err := s.ask(req, v)
		if elsewhere, ok := errors.AsType[*jump](err); ok {
			http.Redirect(w, r, elsewhere.to, http.StatusSeeOther)
			return
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.render(w, req, view{template: "form", title: f.Title, section: v.section, data: f})
	})
	s.mux.HandleFunc("POST "+v.pattern, func(w http.ResponseWriter, r *http.Request) {
		req := s.request(r)
		if !req.can {
			s.fail(w, r, errReadOnly)
			return
		}
		if err := r.ParseForm(); err != nil {
			s.fail(w, r, formError(err))
			return
		}
		if s.cfg.Intend != nil {
			if err := s.cfg.Intend(r.Context(), v.operation, r.URL.Path); err != nil {
				s.fail(w, r, &refusal{status: http.StatusServiceUnavailable, title: "Not possible now", text: "Nothing was done: " + err.Error()})
				return
			}
		}
		d, err := v.apply(req)
		if !d.noted {
			s.note(req, v.operation, req.tenant(), d.target, err)
		}
		if err != nil {
			s.again(w, req, v, err)
			return
		}
		http.Redirect(w, r, noted(d.to, d.notice), http.StatusSeeOther)
	})
}

// note has a change in the audit log.
func (s *site) note(r *request, operation, tenant, target string, err error) {
	if s.cfg.Note != nil {
		s.cfg.Note(r.ctx(), operation, tenant, target, formDetail(r.PostForm), err)
	}
}

// withheld are the fields of forms that are not in the audit log: payloads.
var withheld = []string{"input", "data", "payload", "body", "instance"}

// formDetail returns what a form says, without payloads, as JSON.
func formDetail(values url.Values) string {
	said := map[string]string{}
	for name, all := range values {
		if text := strings.Join(all, ","); text != "" && !slices.Contains(withheld, name) {
			said[name] = text
		}
	}
	if len(said) == 0 {
		return ""
	}
	text, err := json.Marshal(said)
	if err != nil {
		return "" // not reached: there are only texts
	}
	return string(text)
}

var errReadOnly = &refusal{
	status: http.StatusForbidden, title: "You can look, and not change",
	text: "It takes the role " + string(auth.Operate) + ". An administrator of tokens or logins can grant it.",
}

func (s *site) ask(r *request, v verb) (form, error) {
	if !r.can {
		return form{}, errReadOnly
	}
	return v.form(r)
}

// again shows a form once more, as it was filled in, with what is wrong about it.
func (s *site) again(w http.ResponseWriter, r *request, v verb, err error) {
	if !isMistake(err) {
		s.fail(w, r.Request, err)
		return
	}
	f, formErr := v.form(r)
	if formErr != nil {
		s.fail(w, r.Request, err)
		return
	}
	for i := range f.Fields {
		if f.Fields[i].Kind != "hidden" {
			f.Fields[i].Value = r.PostForm.Get(f.Fields[i].Name)
		}
	}
	e := explain(err)
	f.Error = e.text
	s.render(w, r, view{template: "form", title: f.Title, section: v.section, status: e.status, data: f})
}

// formError is what a form that cannot be read means.
func formError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return mistake("The form cannot be read: " + err.Error())
}

// notices are what pages say after something was done. The address has the name of one, so
// that nobody can put words into the page's mouth.
var notices = map[string]string{
	"started":     "Started.",
	"build-set":   "Saved. Workers learn of it at once.",
	"changed":     "Done, for all that were selected.",
	"none-ticked": "No row is ticked. Tick the boxes of those that you mean.",
	"begun":       "The operation has begun.",
	"existed":     "There is an instance with that ID already: here it is.",
	"raised":      "The event was raised.",
	"corrected":   "The payload was corrected, and the instance goes on.",

	"raised-awaited":     "The instance waits for the event and receives it.",
	"raised-kept":        "Kept: the instance does not wait for an event of that name yet.",
	"raised-dropped":     "Dropped: the instance does not wait for an event of that name.",
	"raised-no-instance": "Kept until the instance is started.",
	"started-unserved":   "Started. No live worker serves it: it waits for one.",

	"cancelling":  "It was asked to come to an end.",
	"terminated":  "It was terminated.",
	"suspended":   "It is suspended.",
	"resumed":     "It goes on.",
	"restarted":   "It was started once more.",
	"rewound":     "It goes on from before its failure.",
	"forked":      "This is the fork: it goes its own way from here.",
	"deleted":     "It was deleted.",
	"moved":       "The timer was moved.",
	"snoozed":     "The timer was snoozed.",
	"scheduled":   "The timer is armed.",
	"cancelled":   "It was cancelled.",
	"redelivered": "It will be delivered once more.",
	"added":       "Added.",

	"added-unserved": "Added. No live worker serves its target: its runs wait until one does. Check the name.",

	"saved":         "Saved.",
	"retried":       "It will be run at the next tick.",
	"limit-set":     "Saved. It counts in all processes within a second.",
	"limit-paused":  "Paused. What is under way goes on.",
	"limit-resumed": "Resumed. What waits begins as the rule allows.",
	"limit-unset":   "The rule of the code counts again.",

	"paused":     "The schedule is paused.",
	"unpaused":   "The schedule goes on.",
	"triggered":  "This is the run: it happens at the next tick.",
	"backfilled": "The runs were made, and happen at the next tick.",
	"redriven":   "The message was put back, as if it had never been tried.",
	"discarded":  "The message was deleted.",
	"draining":   "The worker was asked to drain.",
	"stopped":    "The operation stops here. What it has done is done.",
}

// noted returns the address of a page that has something to say.
func noted(to, notice string) string {
	if notice == "" {
		return to
	}
	sep := "?"
	if strings.Contains(to, "?") {
		sep = "&"
	}
	return to + sep + "done=" + url.QueryEscape(notice)
}
