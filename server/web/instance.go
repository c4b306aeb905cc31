package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/auth"
)

// instanceData is what the page of one instance shows.
type instanceData struct {
	Info       abide.Info
	Path       string // of the page, without the prefix
	Verbs      []verbLink
	Waits      []abide.Waiting
	Quiet      bool // it waits, and history does not say for what
	Timeline   timeline
	Events     []eventRow
	EventPages pager
	Execution  int   // whose history is shown
	Executions []int // whose history is kept
	Input      []byte
	Children   []child
	Values     []value
	Commands   []command
}

// value is something that an instance lets others read.
type value struct {
	Name string
	Data []byte
}

// child is an instance that this one has started.
type child struct {
	Ref           abide.Ref
	Orchestration string
	State         string
}

// pager leads along a list that is shown in parts.
type pager struct {
	Words        string
	Newer, Older string
}

// verbLink leads to a form.
type verbLink struct {
	Label  string
	Href   string
	Danger bool
}

// ref returns the instance in the path, which must be the caller's.
func (r *request) ref() (abide.Ref, error) {
	tenant, err := r.owner()
	return abide.Ref{Tenant: instanceTenant(tenant), ID: r.named("id")}, err
}

func (s *site) instance(r *request) (view, error) {
	ref, err := r.ref()
	if err != nil {
		return view{}, err
	}
	info, err := s.cfg.Engine.Get(r.ctx(), ref)
	if err != nil {
		return view{}, err
	}
	d := instanceData{Info: info, Path: instancePath(ref), Execution: info.Execution}
	if n, err := strconv.Atoi(r.value("execution")); err == nil && n > 0 {
		d.Execution = n
	}
	for n := max(1, info.Execution-1); n <= info.Execution; n++ {
		d.Executions = append(d.Executions, n)
	}
	h, err := s.cfg.Engine.History(r.ctx(), ref, d.Execution)
	if err != nil {
		return view{}, err
	}
	if d.Execution == info.Execution && !info.Status.Ended() {
		if d.Waits, err = s.cfg.Engine.Waits(r.ctx(), ref); err != nil {
			return view{}, err
		}
		d.Quiet = len(d.Waits) == 0 && info.Status == abide.Running
	}
	s.tell(r, &d, &h)
	// A turn that changes nothing but history is not told of, so that it is looked for as
	// long as there may be one.
	kinds := liveInstances
	if !info.Status.Ended() {
		kinds += "," + liveTick
	}
	return view{
		template: "instance", title: ref.ID, section: "instances", data: &d,
		live: "kinds=" + kinds + "&tenant=" + segment(tenantName(ref.Tenant)) + "&id=" + segment(ref.ID),
	}, nil
}

// tell fills in what history says.
func (s *site) tell(r *request, d *instanceData, h *abide.History) {
	end := r.now()
	if !d.Info.EndedAt.IsZero() {
		end = d.Info.EndedAt
	}
	d.Timeline = newTimeline(s, d.Info, h, d.Waits, end)
	told := narrate(h)
	d.Events, d.EventPages = s.eventPage(r, d, told)
	for i := range h.Events {
		e := &h.Events[i]
		switch e.Kind {
		case "ExecutionStarted":
			d.Input = e.Data
		case "ChildStarted", "DetachedStarted":
			if len(d.Children) < maxChildren {
				d.Children = append(d.Children, child{
					Ref: abide.Ref{Tenant: d.Info.Ref.Tenant, ID: e.Target}, Orchestration: e.Name, State: told.state(e.ID),
				})
			}
		}
	}
	for name, data := range d.Info.Values {
		d.Values = append(d.Values, value{Name: name, Data: data})
	}
	slices.SortFunc(d.Values, func(a, b value) int { return compare(a.Name, b.Name) })
	if r.can {
		d.Verbs = s.verbLinks(d.Info)
	}
	d.Commands = s.commands(r, d.Info.Ref)
}

// maxChildren is how many children a page lists.
const maxChildren = 200

// eventsShown is how many events a page shows.
const eventsShown = 200

// eventPage returns the part of the events to show: the last ones, unless the address says
// which.
func (s *site) eventPage(r *request, d *instanceData, told *narration) ([]eventRow, pager) {
	total := len(told.rows)
	last := total
	if n, err := strconv.Atoi(r.value("events")); err == nil && n > 0 && n < total {
		last = n
	}
	first := max(0, last-eventsShown)
	var p pager
	if first > 0 || last < total {
		p.Words = "Events " + number(first+1) + " to " + number(last) + " of " + number(total)
	}
	execution := ""
	if d.Execution != d.Info.Execution {
		execution = strconv.Itoa(d.Execution)
	}
	link := func(to int) string {
		return s.with(d.Path, "execution", execution, "events", strconv.Itoa(to)) + "#events"
	}
	if first > 0 {
		p.Older = link(first)
	}
	if last < total {
		p.Newer = link(min(total, last+eventsShown))
	}
	shown := told.rows[first:last]
	// Only the latest execution can be forked, and not where it has ended.
	if r.can && d.Execution == d.Info.Execution {
		for i := range shown {
			if shown[i].forkable {
				shown[i].Fork = s.with(d.Path+"/fork", "event", strconv.Itoa(shown[i].ID))
			}
		}
	}
	return shown, p
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// verbLinks returns what can be done to an instance in its status.
func (s *site) verbLinks(info abide.Info) []verbLink {
	base := s.path(instancePath(info.Ref))
	link := func(label, verb string, danger bool) verbLink {
		return verbLink{Label: label, Href: base + "/" + verb, Danger: danger}
	}
	if info.Status.Ended() {
		return []verbLink{link("Restart", "restart", false), link("Delete", "delete", true)}
	}
	list := []verbLink{link("Raise event", "raise", false)}
	switch info.Status {
	case abide.Suspended, abide.Stalled:
		list = append(list, link("Resume", "resume", false))
	default:
		list = append(list, link("Suspend", "suspend", false))
	}
	return append(list, link("Cancel", "cancel", true), link("Terminate", "terminate", true))
}

// rawHistory answers with history as JSON, which package abidetest replays.
func (s *site) rawHistory(w http.ResponseWriter, r *http.Request) {
	req := s.request(r)
	ref, err := req.ref()
	if err == nil && !req.who.Role.Includes(auth.Read) {
		err = errReadOnly
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	execution, _ := strconv.Atoi(req.value("execution")) // 0 is the latest
	h, err := s.cfg.Engine.History(r.Context(), ref, max(0, execution))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// instanceVerbs are what can be done to one instance.
func (s *site) instanceVerbs() []verb {
	texts := map[string]string{
		"suspend": "It waits until it is resumed. What reaches it meanwhile is kept, and timers that are due wait.",
		"resume":  "It goes on from where it is. If it has stalled, its code should have been mended first, or it stalls again.",
		"cancel":  "Its code is asked to come to an end, and decides how: what it waits for is given up, and it may undo what it did.",
		"terminate": "It ends at once, without asking its code. Nothing is undone, and nothing that it has begun elsewhere is taken back. " +
			"Cancel asks first, and is the better choice unless its code cannot answer.",
		"restart": "It starts once more with the same input, under the same ID. Its old history goes.",
		"delete":  "It is removed with its history, for good.",
	}
	notice := map[string]string{
		"suspend": "suspended", "resume": "resumed", "cancel": "cancelling", "terminate": "terminated", "restart": "restarted", "delete": "deleted",
	}
	var verbs []verb
	for _, k := range bulkKinds {
		kind := k.Kind
		verbs = append(verbs, verb{
			pattern: "/instances/{tenant}/{id}/" + kind, section: "instances", operation: kind + "-instance",
			form: func(r *request) (form, error) {
				info, err := s.got(r)
				if err != nil {
					return form{}, err
				}
				f := form{
					Title: k.Label + " " + info.Ref.ID + "?", Text: texts[kind], Submit: k.Label, Danger: k.Danger,
					Back: s.path(instancePath(info.Ref)),
				}
				if kind == "suspend" || kind == "cancel" || kind == "terminate" {
					f.Fields = []field{reasonField()}
				}
				return f, nil
			},
			apply: func(r *request) (done, error) {
				ref, err := r.ref()
				if err != nil {
					return done{}, err
				}
				d := done{target: target(ref), to: s.path(instancePath(ref)), notice: notice[kind]}
				if kind == "delete" {
					d.to = s.path("/instances")
				}
				return d, s.change(r.ctx(), kind, ref, r.value("reason"))
			},
		})
	}
	return append(verbs, s.raiseVerb(), s.forkVerb(), s.moveVerb())
}

// target returns an instance for the audit log.
func target(ref abide.Ref) string { return tenantName(ref.Tenant) + "/" + ref.ID }

// got returns the instance in the path.
func (s *site) got(r *request) (abide.Info, error) {
	ref, err := r.ref()
	if err != nil {
		return abide.Info{}, err
	}
	return s.cfg.Engine.Get(r.ctx(), ref)
}

func (s *site) raiseVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/raise", section: "instances", operation: "raise-event",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Raise an event", Submit: "Raise", Back: s.path(instancePath(info.Ref)),
				Text: "Events of a name are kept in order until the instance receives them.",
				Fields: []field{
					{Name: "name", Label: "Name", Kind: "text", Required: true, Value: r.value("name"), Example: "approved"},
					{Name: "data", Label: "What comes with it", Kind: "code", Value: r.value("data"), Example: `{"by": "an operator"}`, Help: "JSON. Empty means nothing."},
					{Name: "awaited", Label: "Only if the instance waits for it", Kind: "check"},
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), to: s.path(instancePath(ref)), notice: "raised"}
			data, err := parseJSON("What comes with it", r.value("data"))
			if err != nil {
				return d, err
			}
			opts := []abide.RaiseOption{abide.Tenant(ref.Tenant)}
			if r.value("awaited") != "" {
				opts = append(opts, abide.IfAwaited())
			}
			if data == nil {
				return d, abide.NewEvent[abide.None](r.value("name")).Raise(r.ctx(), s.cfg.Engine, ref.ID, abide.None{}, opts...)
			}
			return d, abide.NewEvent[json.RawMessage](r.value("name")).Raise(r.ctx(), s.cfg.Engine, ref.ID, data, opts...)
		},
	}
}

func (s *site) forkVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/fork", section: "instances", operation: "fork-instance",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Fork " + info.Ref.ID, Submit: "Fork", Back: s.path(instancePath(info.Ref)),
				Text: "A new instance begins with the history of this one, up to and with the event, and goes its own way from there. " +
					"What it waits for there is asked for once more. This one is not touched.",
				Fields: []field{
					{Name: "event", Label: "Up to event", Kind: "text", Required: true, Value: r.value("event"), Help: "Its number in the list of events."},
					{Name: "new", Label: "ID of the new instance", Kind: "text", Value: r.value("new"), Help: "Empty means a random one."},
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), notice: "forked"}
			event, err := parseCount("Up to event", r.value("event"))
			if err != nil {
				return d, err
			}
			fork, err := s.cfg.Engine.Fork(r.ctx(), ref, event, r.value("new"))
			d.to = s.path(instancePath(fork))
			return d, err
		},
	}
}

// moveVerb gives a timer that an instance waits for another time.
func (s *site) moveVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/move", section: "instances", operation: "move-instance-timer",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Move a timer", Submit: "Move", Back: s.path(instancePath(info.Ref)),
				Text: "All pending timers of that name get the new time. One in the past fires at once.",
				Fields: []field{
					{Name: "timer", Label: "Timer", Kind: "text", Required: true, Value: r.value("timer"), Help: "Its name."},
					whenField(r.value("at")),
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), to: s.path(instancePath(ref)), notice: "moved"}
			at, err := requireTime(r, "at")
			if err != nil {
				return d, err
			}
			return d, s.cfg.Engine.MoveTimer(r.ctx(), ref, r.value("timer"), at)
		},
	}
}

func whenField(value string) field {
	return field{Name: "at", Label: "When", Kind: "text", Required: true, Value: value, Example: "+10m", Help: timeHelp + "."}
}

// requireTime returns the time in a field that must not be empty.
func requireTime(r *request, name string) (time.Time, error) {
	at, err := parseTime("When", r.value(name), r.now())
	if err == nil && at.IsZero() {
		err = mistake("When? Write it like this: " + timeHelp + ".")
	}
	return at, err
}
