package web

import (
	"maps"
	"slices"
	"strconv"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// instanceData is what the page of one instance shows.
type instanceData struct {
	Info       abide.Info
	Path       string // of the page, without the prefix
	Verbs      []verbLink
	Turn       *abide.Lease // of its turn, if a worker has claimed that
	Waits      []abide.Waiting
	WaitsMore  []string // those that are not listed, by what they are
	Missing    string   // the build that it is pinned to, if it waits for a worker of it and none is alive
	Quiet      bool     // it waits, and history does not say for what
	WaitsOf    string   // the events in which the waits were asked for, unless these are all
	Timeline   timeline
	Part       string // the events that the timeline and the children are of, unless these are all
	Events     []eventRow
	EventPages pager
	Execution  int   // whose history is shown
	Executions []int // whose history is kept
	Input      []byte
	Children   children
	Show       string // the state whose rows are shown; empty means all
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
	Why           string // it failed
}

// children are those of an instance.
type children struct {
	Total int
	Words string // how many there are of each state
	Chips []chip
	Rows  []child // what runs or has failed first
	More  int     // those that are not listed
	Part  bool    // only those that a part of the history tells of
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
	if show := r.value("show"); slices.Contains(shown, show) {
		d.Show = show
	}
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
		if s.buildMissing(r, &info) {
			d.Missing = info.Build
		}
	}
	if err := s.tell(r, &d, shown); err != nil {
		return view{}, err
	}
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
	if d.Turn, err = s.engine.TurnLease(r.ctx(), d.Info.Ref); err != nil {
		return err
	}
	if d.Info.Admitted {
		d.Waits, err = s.engine.WaitsAmong(r.ctx(), d.Info.Ref, newest.part.Events)
	} else {
		d.Waits, err = s.engine.Waits(r.ctx(), d.Info.Ref) // which reads no history while it waits for a limit
	}
	d.Quiet = len(d.Waits) == 0 && d.Info.Status == abide.Running
	return err
}

// maxWaits is how many waits a page lists one by one.
const maxWaits = 20

// foldWaits leaves the first waits, and counts the others by what they are.
func (d *instanceData) foldWaits() {
	if len(d.Waits) <= maxWaits {
		return
	}
	count := map[string]int{}
	for _, wait := range d.Waits[maxWaits:] {
		what := "activity " + wait.Name
		switch wait.Kind {
		case history.TimerCreated:
			what = "timer " + reasonKey(wait.Name)
		case history.ChildStarted:
			what = "child of " + wait.Name
		case history.EntityCalled:
			what = "operation " + wait.Name
		case history.EntityLockRequested:
			what = "locks of entities"
		default:
		}
		count[what]++
	}
	d.Waits = d.Waits[:maxWaits]
	for _, what := range slices.Sorted(maps.Keys(count)) {
		d.WaitsMore = append(d.WaitsMore, what+" × "+number(count[what]))
	}
}

// tell fills in what a part of the history says.
func (s *site) tell(r *request, d *instanceData, w *window) error {
	end := r.now()
	if !d.Info.EndedAt.IsZero() {
		end = d.Info.EndedAt
	}
	if !w.whole() {
		d.Part = w.words()
	}
	d.Timeline = newTimeline(s, d.Info, w, d.Waits, end, d.Show)
	d.foldWaits()
	told := narrateWindow(w)
	d.Events, d.EventPages = s.eventPage(r, d, w, told)
	if d.Input = w.input(); d.Input == nil && d.Execution == d.Info.Execution && !d.Info.Status.Ended() {
		d.Input = s.undeliveredInput(r, &d.Info)
	}
	d.Children = childrenOf(d, w, told)
	if !w.whole() {
		listed, err := s.listChildren(r, d)
		if err != nil {
			return err
		}
		if listed.Total >= d.Children.Total { // ended ones may have been deleted
			d.Children = listed
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
	return nil
}

// maxChildren is how many children a page lists.
const maxChildren = 100

// eventsShown is how many events a page lists.
const eventsShown = 100

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
		return s.with(d.Path, "execution", execution, "events", events, "show", d.Show) + "#events"
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
