package web

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// instanceData is what the page of one instance shows.
type instanceData struct {
	Info       abide.Info
	Path       string // of the page, without the prefix
	Verbs      []verbLink
	Waits      []abide.Waiting
	Quiet      bool   // it waits, and history does not say for what
	WaitsOf    string // the events in which the waits were asked for, unless these are all
	Timeline   timeline
	Part       string // the events that the timeline and the children are of, unless these are all
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
	Newest       string
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
	return abide.Ref{Tenant: tenantName(tenant), ID: r.named("id")}, err
}

func (s *site) instance(r *request) (view, error) {
	ref, err := r.ref()
	if err != nil {
		return view{}, err
	}
	info, err := s.engine.Get(r.ctx(), ref)
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
	last, _ := strconv.Atoi(r.value("events")) // 0 is the newest
	shown, err := s.window(r.ctx(), &info, d.Execution, max(0, last))
	if err != nil {
		return view{}, err
	}
	if d.Execution == info.Execution && !info.Status.Ended() {
		if err := s.waits(r, &d, shown); err != nil {
			return view{}, err
		}
	}
	s.tell(r, &d, shown)
	// A turn that changes nothing but history is not told of, so that it is looked for as
	// long as there may be one.
	kinds := liveInstances
	if !info.Status.Ended() {
		kinds += "," + liveTick
	}
	return view{
		template: "instance", title: ref.ID, section: "instances", data: &d,
		live: "kinds=" + kinds + "&tenant=" + segment(ref.Tenant) + "&id=" + segment(ref.ID),
	}, nil
}

// waits fills in what the instance waits for, as far as its newest events say.
func (s *site) waits(r *request, d *instanceData, shown *window) error {
	newest := shown
	if shown.last() < shown.total {
		var err error
		if newest, err = s.window(r.ctx(), &d.Info, d.Execution, 0); err != nil {
			return err
		}
	}
	if !newest.whole() {
		d.WaitsOf = newest.words()
	}
	var err error
	d.Waits, err = s.engine.WaitsAmong(r.ctx(), d.Info.Ref, newest.part.Events)
	d.Quiet = len(d.Waits) == 0 && d.Info.Status == abide.Running
	return err
}

// tell fills in what a part of the history says.
func (s *site) tell(r *request, d *instanceData, w *window) {
	end := r.now()
	if !d.Info.EndedAt.IsZero() {
		end = d.Info.EndedAt
	}
	if !w.whole() {
		d.Part = w.words()
	}
	d.Timeline = newTimeline(s, d.Info, w, d.Waits, end)
	told := narrateWindow(w)
	d.Events, d.EventPages = s.eventPage(r, d, w, told)
	d.Input = w.input()
	for i := range w.part.Events {
		e := &w.part.Events[i]
		if (e.Kind == history.ChildStarted || e.Kind == history.DetachedStarted) && len(d.Children) < maxChildren {
			d.Children = append(d.Children, child{
				Ref: abide.Ref{Tenant: d.Info.Ref.Tenant, ID: e.Target}, Orchestration: e.Name, State: told.state(e.ID),
			})
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

// eventsShown is how many events a page lists.
const eventsShown = 200

// eventPage returns the events to list, the last ones of the window, and the links to those
// before and after them.
func (s *site) eventPage(r *request, d *instanceData, w *window, told *narration) ([]eventRow, pager) {
	shown := told.rows[max(0, len(told.rows)-eventsShown):]
	first, last := w.last()-len(shown)+1, w.last()
	var p pager
	if first > 1 || last < w.total {
		p.Words = "Events " + number(first) + " to " + number(last) + " of " + number(w.total)
	}
	execution := ""
	if d.Execution != d.Info.Execution {
		execution = strconv.Itoa(d.Execution)
	}
	link := func(to int) string {
		events := ""
		if to < w.total {
			events = strconv.Itoa(to)
		}
		return s.with(d.Path, "execution", execution, "events", events) + "#events"
	}
	if first > 1 {
		p.Older = link(first - 1)
	}
	if last < w.total {
		p.Newer = link(min(w.total, last+eventsShown))
		p.Newest = link(w.total)
	}
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
func target(ref abide.Ref) string { return ref.Tenant + "/" + ref.ID }

// got returns the instance in the path.
func (s *site) got(r *request) (abide.Info, error) {
	ref, err := r.ref()
	if err != nil {
		return abide.Info{}, err
	}
	return s.engine.Get(r.ctx(), ref)
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
				return d, abide.NewEvent[abide.None](r.value("name")).Raise(r.ctx(), s.engine, ref.ID, abide.None{}, opts...)
			}
			return d, abide.NewEvent[json.RawMessage](r.value("name")).Raise(r.ctx(), s.engine, ref.ID, data, opts...)
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
			fork, err := s.engine.Fork(r.ctx(), ref, event, r.value("new"))
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
			return d, s.engine.MoveTimer(r.ctx(), ref, r.value("timer"), at)
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
