package web

import (
	"net/http"
	"slices"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/auth"
)

func (s *site) addActions() {
	s.section("actions", "/actions", "Actions")
	s.page("GET /actions", s.actions)
	s.page("GET /actions/{tenant}/{id}", s.action)
	s.mux.HandleFunc("GET /actions/{tenant}/{id}/body", s.actionBody)
	s.verb(s.addActionVerb())
	for _, v := range s.actionVerbs() {
		s.verb(v)
	}
}

func actionPath(tenant, id string) string { return "/actions/" + segment(tenant) + "/" + segment(id) }

// actionRow is an action in a list.
type actionRow struct {
	action.Action
	BodySize int64 // of a webhook
	Unserved bool  // it is pending, and no live worker serves its target
}

// actionsData is what the list of actions shows.
type actionsData struct {
	Scope       scope
	Status      string
	Statuses    []action.Status
	Slug        string
	Rows        []actionRow
	First, Next string
	Empty       bool // nothing was asked for
	Error       string
	Commands    []command
}

func (s *site) actions(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := actionsData{Scope: sc, Status: r.value("status"), Statuses: action.Statuses, Slug: r.value("slug")}
	v := view{template: "actions", title: "Actions", section: "actions", live: "kinds=tick", data: &d}
	f := action.Filter{Tenant: sc.Asked, Slug: d.Slug, Descending: true}
	if d.Status != "" {
		if !slices.Contains(action.Statuses, action.Status(d.Status)) {
			d.Error = "There is no status " + d.Status + "."
			return v, nil
		}
		f.Statuses = []action.Status{action.Status(d.Status)}
		f.Descending = action.Status(d.Status) != action.Pending // what comes next is first
	}
	f.Limit, f.Cursor = rows, r.value("cursor")
	page, err := s.cfg.Actions.List(r.ctx(), f)
	if err != nil {
		return view{}, err
	}
	for _, a := range page.Actions {
		d.Rows = append(d.Rows, actionRow{
			Action: a, BodySize: int64(a.Trigger.Size), Unserved: a.Status == action.Pending && s.targetUnserved(r, a.Target),
		})
	}
	pairs := []string{"tenant", sc.Asked, "status", d.Status, "slug", d.Slug}
	if r.value("cursor") != "" {
		d.First = s.with("/actions", pairs...)
	}
	if page.Next != "" {
		d.Next = s.with("/actions", append(pairs, "cursor", page.Next)...)
	}
	d.Empty = d.Status == "" && d.Slug == ""
	d.Commands = []command{
		{"Copy", s.tool(r, "actions add billing --in 1m")},
		{"Copy", "curl -d '{\"paid\":true}' " + shellQuote(r.origin()+s.path("/hooks/billing"))},
	}
	return v, nil
}

// actionData is what the page of one action shows.
type actionData struct {
	Action   action.Action
	Path     string
	HasBody  bool
	Size     int64 // of the body
	Body     []byte
	Verbs    []verbLink
	Commands []command
}

// maxBodyShown is how much of a body a page shows; all of it can be loaded.
const maxBodyShown = 16 << 10

func (s *site) action(r *request) (view, error) {
	a, err := s.gotAction(r)
	if err != nil {
		return view{}, err
	}
	d := actionData{Action: a, Path: actionPath(a.Tenant, a.ID), Size: int64(a.Trigger.Size)}
	if a.Trigger.Kind == action.Webhook {
		// It is gone when the action has completed, which is no error.
		if body, err := s.cfg.Actions.Body(r.ctx(), a.Tenant, a.ID); err == nil {
			d.HasBody, d.Body = true, body[:min(len(body), maxBodyShown)]
		}
	}
	base := s.path(d.Path)
	switch {
	case !r.can:
	case a.Status == action.Pending || a.Status == action.Running:
		d.Verbs = []verbLink{{Label: "Cancel", Href: base + "/cancel", Danger: true}}
	case a.Status == action.Failed || a.Status == action.Cancelled:
		d.Verbs = []verbLink{{Label: "Retry", Href: base + "/retry"}}
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, d.Path)},
		{"Copy as command", s.tool(r, "actions show "+shellQuote(a.ID)+tenantFlag(a.Tenant))},
	}
	return view{template: "action", title: a.Slug, section: "actions", live: "kinds=tick", data: &d}, nil
}

func (s *site) gotAction(r *request) (action.Action, error) {
	tenant, err := r.owner()
	if err != nil {
		return action.Action{}, err
	}
	return s.cfg.Actions.Get(r.ctx(), tenant, r.named("id"))
}

// actionBody answers with the body of a webhook, to be kept and not to be looked at: it is
// of another system, and may be a page.
func (s *site) actionBody(w http.ResponseWriter, r *http.Request) {
	req := s.request(r)
	tenant, err := req.owner()
	if err == nil && !req.who.Role.Includes(auth.Read) {
		err = errReadOnly
	}
	var body []byte
	if err == nil {
		body, err = s.cfg.Actions.Body(r.Context(), tenant, req.named("id"))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="body"`)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the client may be gone
}

func (s *site) addActionVerb() verb {
	return verb{
		pattern: "/actions/new", section: "actions", operation: "add-action",
		form: func(r *request) (form, error) {
			sc, err := r.scope()
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Add an action", Submit: "Add", Back: s.path("/actions"), Text: "It is done at the first tick at which it is due.",
				Fields: append([]field{tenantField(sc, r.value("tenant"))}, workFields(r.value("slug"), r.value("target"), s.targets(r, sc), r.value("payload"), r.value("idempotent"),
					field{Name: "at", Label: "When", Kind: "text", Value: r.value("at"), Example: "at the next tick", Help: timeHelp + "."},
					field{Name: "id", Label: "ID", Kind: "text", Value: r.value("id"), Help: "Adding the same one twice adds one action. Empty means a new one."})...),
			}, nil
		},
		apply: func(r *request) (done, error) {
			tenant := tenantName(r.value("tenant"))
			d := done{target: tenant + "/" + r.value("id"), notice: "added"}
			if err := r.allow(tenant); err != nil {
				return d, err
			}
			at, err := parseTime("When", r.value("at"), r.now())
			if err != nil {
				return d, err
			}
			payload, err := parseJSON("Payload", r.value("payload"))
			if err != nil {
				return d, err
			}
			a, _, err := s.cfg.Actions.Add(r.ctx(), action.Request{
				Tenant: tenant, Slug: r.value("slug"), Target: r.value("target"), ID: r.value("id"), At: at, Payload: payload,
				Idempotent: r.value("idempotent") != "",
			})
			d.target, d.to = tenant+"/"+a.ID, s.path(actionPath(a.Tenant, a.ID))
			return d, err
		},
	}
}

// targetUnserved reports whether it is known that no live worker serves a target.
func (s *site) targetUnserved(r *request, target string) bool {
	served, err := s.cfg.Actions.Served(r.ctx(), target)
	return err == nil && !served
}

// targets returns the targets that the tenants of a scope can use.
func (s *site) targets(r *request, sc scope) []string {
	var names []string
	if sc.Asked != "" || sc.Choices == nil {
		names = s.cfg.Actions.Targets(sc.Asked)
	} else {
		for _, tenant := range sc.Choices {
			names = append(names, s.cfg.Actions.Targets(tenant)...)
		}
	}
	if s.engine != nil && r.everything() {
		// Those of other processes, which decide whose actions they run. It is a help and no more.
		workers, _ := s.engine.Workers(r.ctx())
		for i := range workers {
			names = append(names, workers[i].Targets...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// workFields ask for what is to be done, with more fields before the payload. Targets are
// suggested; others may be served by other processes.
func workFields(slug, target string, targets []string, payload, idempotent string, more ...field) []field {
	list := []field{
		{Name: "slug", Label: "Slug", Kind: "text", Required: true, Value: slug, Example: "billing", Help: "What it is for, such as the name of a service."},
		{Name: "target", Label: "Target", Kind: "text", Required: true, Value: target, Options: options(targets...), Help: "What does it, by its name in the configuration."},
	}
	list = append(list, more...)
	return append(list,
		field{Name: "payload", Label: "Payload", Kind: "code", Value: payload, Example: `{"full": true}`, Help: "JSON for the target. Empty means none."},
		field{Name: "idempotent", Label: "It can be run again if nobody knows how far it came", Kind: "check", Value: idempotent})
}

func (s *site) actionVerbs() []verb {
	ask := func(title, text, submit string, danger bool, fields ...field) func(*request) (form, error) {
		return func(r *request) (form, error) {
			a, err := s.gotAction(r)
			return form{
				Title: title + " " + a.Slug + "?", Text: text, Submit: submit, Danger: danger, Fields: fields, Back: s.path(actionPath(a.Tenant, a.ID)),
			}, err
		}
	}
	do := func(notice string, f func(r *request, a action.Action) error) func(*request) (done, error) {
		return func(r *request) (done, error) {
			a, err := s.gotAction(r)
			if err != nil {
				return done{}, err
			}
			return done{target: a.Tenant + "/" + a.ID, to: s.path(actionPath(a.Tenant, a.ID)), notice: notice}, f(r, a)
		}
	}
	return []verb{
		{
			pattern: "/actions/{tenant}/{id}/cancel", section: "actions", operation: "cancel-action",
			form: ask("Cancel", "It does not happen, or is interrupted if it runs. What it has done by then is done.", "Cancel the action", true, reasonField()),
			apply: do("cancelled", func(r *request, a action.Action) error {
				_, err := s.cfg.Actions.Cancel(r.ctx(), a.Tenant, a.ID, r.value("reason"))
				return err
			}),
		},
		{
			pattern: "/actions/{tenant}/{id}/retry", section: "actions", operation: "retry-action",
			form: ask("Retry", "It happens once more, at the next tick.", "Retry", false),
			apply: do("retried", func(r *request, a action.Action) error {
				_, err := s.cfg.Actions.Retry(r.ctx(), a.Tenant, a.ID)
				return err
			}),
		},
	}
}
