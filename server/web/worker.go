package web

import (
	"slices"
	"strconv"

	"github.com/abidehq/abide"
)

// workerPath is the page of a worker.
func workerPath(id string) string { return "/workers/" + segment(id) }

// workerData is what the page of a worker shows.
type workerData struct {
	Worker   workerRow
	Held     []abide.Held // the first of them
	More     int          // how many there are beyond those
	Verbs    []verbLink
	Commands []command
}

// worker shows a worker and what it works on.
func (s *site) worker(r *request) (view, error) {
	w, err := s.gotWorker(r)
	if err != nil {
		return view{}, err
	}
	d := workerData{Worker: s.workerRow(r, w)}
	if d.Held, err = s.engine.Held(r.ctx(), w.ID); err != nil {
		return view{}, err
	}
	if n := len(d.Held); n > rows {
		d.Held, d.More = d.Held[:rows], n-rows
	}
	if r.can && d.Worker.CanDrain() {
		d.Verbs = []verbLink{{Label: "Drain", Href: s.path(workerPath(w.ID)) + "/drain", Danger: true}}
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, workerPath(w.ID)+"/leases")},
		{"Copy as command", s.tool(r, "workers show "+shellQuote(w.ID))},
	}
	return view{template: "worker", title: "Worker " + w.Name, section: "workers", live: "kinds=tick", data: &d}, nil
}

// gotWorker returns the live worker in the path.
func (s *site) gotWorker(r *request) (abide.Worker, error) {
	if err := r.onlyEverything(); err != nil {
		return abide.Worker{}, err
	}
	workers, err := s.engine.Workers(r.ctx())
	if err != nil {
		return abide.Worker{}, err
	}
	at := slices.IndexFunc(workers, func(w abide.Worker) bool { return w.ID == r.named("id") })
	if at < 0 {
		return abide.Worker{}, &refusal{status: 404, title: "Not there any more", text: "There is no such worker. It may have ended, or have connected again under another ID."}
	}
	return workers[at], nil
}

func (s *site) workerRow(r *request, w abide.Worker) workerRow {
	return workerRow{Worker: w, Silent: r.now().Sub(w.SeenAt) > silentAfter, Path: s.path(workerPath(w.ID))}
}

// State is what a worker that claims nothing is called, or nothing.
func (w *workerRow) State() string {
	switch {
	case !w.Draining:
		return ""
	case w.Drained:
		return "drained"
	default:
		return "draining"
	}
}

// CanDrain reports whether the worker can be drained: it serves, and not targets of actions.
func (w *workerRow) CanDrain() bool {
	return !w.Draining && len(w.Targets) == 0 && w.TurnSlots+w.RunSlots > 0
}

// Usage returns how many slots are used, of how many if that is known.
func (w *workerRow) Usage(used, of int) string {
	if of == 0 {
		return number(used)
	}
	return number(used) + " of " + number(of)
}

// drainVerb drains a worker.
func (s *site) drainVerb() verb {
	return verb{
		pattern: "/workers/{id}/drain", section: "workers", operation: "drain-worker",
		form: func(r *request) (form, error) {
			w, err := s.gotWorker(r)
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Drain " + w.Name + "?", Submit: "Drain", Danger: true, Back: s.path(workerPath(w.ID)),
				Text: "It gets nothing new and ends what is under way (" + plural(w.Turns, "turn", "turns") + ", " + plural(w.Running, "activity", "activities") + "). " +
					"It serves nothing until its program, process " + strconv.Itoa(w.PID) + " on " + w.Host + ", is started again. A worker of another server heeds it within 20 seconds.",
			}, nil
		},
		apply: func(r *request) (done, error) {
			w, err := s.gotWorker(r)
			if err != nil {
				return done{}, err
			}
			return done{target: w.ID, to: s.path("/workers"), notice: "draining"}, s.engine.DrainWorker(r.ctx(), w.ID)
		},
	}
}
