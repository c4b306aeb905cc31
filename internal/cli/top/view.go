package top

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/instances"
	"github.com/abidehq/abide/internal/cli/stats"

	"github.com/abidehq/abide/server/api"
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
	alarm := func(n, most int) console.Cell {
		c := console.Plain(capped(n, most))
		if n > 0 {
			c.Colour = console.Red
		}
		return c
	}
	unserved := console.Plain(strconv.Itoa(len(o.unserved)))
	if len(o.unserved) > 0 {
		unserved.Colour = console.Red
	}
	return &section{rows: [][]console.Cell{
		{console.Plain("time"), console.Plain(console.LocalTime(o.at)), console.Plain("started/s"), console.Plain(rateText(o.started)), console.Plain("pending"), console.Plain(strconv.Itoa(pending)), console.Plain("stalled"), alarm(o.stalled, topCount)},
		{console.Plain("store"), console.Plain(size), console.Plain("ended/s"), console.Plain(rateText(o.ended)), console.Plain("ready"), console.Plain(strconv.Itoa(ready)), console.Plain("quarantine"), alarm(o.quarantined, topCount)},
		{console.Plain("leases"), console.Plain(strconv.Itoa(o.stats.Leases)), console.Plain("failed/s"), console.Plain(rateText(o.failed)), console.Plain("age"), console.Plain(console.Readable(age)), console.Plain("unserved"), unserved},
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
	if len(o.stats.Routes) == 0 {
		return s
	}
	s.rows = append(s.rows, titles(stats.RouteTitles...))
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
			row := stats.RouteRow(r, &o.stats)
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
		s.rows = append(s.rows, []console.Cell{
			console.Plain(w.Name), console.Plain(w.Host), console.Plain(strconv.Itoa(w.PID)), console.Plain(strconv.Itoa(w.Turns)), console.Plain(strconv.Itoa(w.Running)),
			console.Plain(console.FromNow(w.SeenAt, o.at)), console.Plain(strings.Join(w.Orchestrations, ", ")),
		})
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
		row := instances.InstanceRow(info, false)
		row[3] = console.Plain(console.FromNow(info.StartedAt, o.at))
		row = append([]console.Cell{row[0], console.Plain(api.FromTenant(info.Ref.Tenant))}, row[1:]...)
		s.rows = append(s.rows, row)
	}
	return s
}
