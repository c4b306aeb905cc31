package top

import (
	"fmt"
	"io"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/instances"
	"github.com/abidehq/abide/internal/cli/stats"
)

// Write prints an overview as a text.
func (o *overview) Write(w io.Writer) error {
	parts := []*section{o.head(), o.queues(), o.processes(), o.instances()}
	for i, part := range parts {
		if len(part.rows) == 0 {
			continue
		}
		if i > 0 {
			if _, err := fmt.Fprintf(w, "\n%s\n", part.title); err != nil {
				return err
			}
		}
		t := &console.Table{Colours: console.Colours(w), Width: console.TerminalWidth(w)}
		for _, row := range part.rows {
			t.Add(row...)
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// section is a part of an overview: rows, the first of which are titles, under a title.
type section struct {
	title string
	rows  [][]console.Cell
}

// head says how much happens, and what needs a person.
func (o *overview) head() *section {
	pending, ready, age := o.totals()
	size := "–"
	if o.stats.Bytes > 0 {
		size = stats.BytesText(o.stats.Bytes)
	}
	alarm := func(n int) console.Cell {
		c := console.Alarm(n)
		c.Text = capped(n, topCount)
		return c
	}
	return &section{rows: [][]console.Cell{
		console.Row("time", o.at, "started/s", rateText(o.started), "pending", pending, "stalled", alarm(o.stalled)),
		console.Row("store", size, "ended/s", rateText(o.ended), "ready", ready, "quarantine", alarm(o.quarantined)),
		console.Row("leases", o.stats.Leases, "failed/s", rateText(o.failed), "age", console.Readable(age), "unserved", console.Alarm(len(o.unserved))),
	}}
}

// titles makes a row of titles.
func titles(names ...string) []console.Cell {
	row := make([]console.Cell, len(names))
	for i, name := range names {
		row[i] = console.Cell{Text: name, Colour: console.Faint}
	}
	return row
}

// queues shows the pending messages by route, routes without a worker first.
func (o *overview) queues() *section {
	s := &section{title: "queues"}
	routes := stats.RouteRows(&o.stats)
	if len(o.stats.Routes) == 0 {
		return s
	}
	s.rows = append(s.rows, titles(routes.Titles...))
	unserved := map[string]bool{}
	for _, u := range o.unserved {
		unserved[u.Route] = true
	}
	for _, first := range []bool{true, false} {
		for i := range o.stats.Routes {
			r := &o.stats.Routes[i]
			if unserved[r.Route] != first {
				continue
			}
			row := routes.Row(r)
			if first {
				row[1] = console.Cell{Text: r.Route + " (nobody serves it)", Colour: console.Red}
			}
			s.rows = append(s.rows, row)
		}
	}
	return s
}

// processes are the workers.
func (o *overview) processes() *section {
	s := &section{title: "workers"}
	if len(o.workers) == 0 {
		return s
	}
	s.rows = append(s.rows, titles("NAME", "HOST", "PID", "TURNS", "ACTIVITIES", "SEEN", "SERVES"))
	for i := range o.workers {
		w := &o.workers[i]
		s.rows = append(s.rows, console.Row(w.Name, w.Host, w.PID, w.Turns, w.Running, console.FromNow(w.SeenAt, o.at), strings.Join(w.Orchestrations, ", ")))
	}
	return s
}

// instances are the latest ones.
func (o *overview) instances() *section {
	s := &section{title: "latest instances"}
	if len(o.latest) == 0 {
		return s
	}
	s.rows = append(s.rows, titles("ID", "TENANT", "ORCHESTRATION", "STATUS", "STARTED", "TOOK", "NOTE"))
	for i := range o.latest {
		info := &o.latest[i]
		row := instances.Rows.Row(info)
		row[3] = console.Plain(console.FromNow(info.StartedAt, o.at))
		row = append([]console.Cell{row[0], console.Plain(info.Ref.Tenant)}, row[1:]...)
		s.rows = append(s.rows, row)
	}
	return s
}
