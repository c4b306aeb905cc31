package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/abidehq/abide/server/api"
)

// write prints an overview as a text.
func (o *overview) write(w io.Writer) error {
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
		t := &table{colours: colours(w), width: terminalWidth(w)}
		for _, row := range part.rows {
			t.add(row...)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// section is a part of an overview: rows, the first of which are titles, under a title.
type section struct {
	title string
	rows  [][]cell
}

// head says how much happens, and what needs a person.
func (o *overview) head() *section {
	pending, ready, age := o.totals()
	size := "–"
	if o.stats.Bytes > 0 {
		size = bytesText(o.stats.Bytes)
	}
	alarm := func(n, most int) cell {
		c := plain(capped(n, most))
		if n > 0 {
			c.colour = red
		}
		return c
	}
	unserved := plain(strconv.Itoa(len(o.unserved)))
	if len(o.unserved) > 0 {
		unserved.colour = red
	}
	return &section{rows: [][]cell{
		{plain("time"), plain(localTime(o.at)), plain("started/s"), plain(rateText(o.started)), plain("pending"), plain(strconv.Itoa(pending)), plain("stalled"), alarm(o.stalled, topCount)},
		{plain("store"), plain(size), plain("ended/s"), plain(rateText(o.ended)), plain("ready"), plain(strconv.Itoa(ready)), plain("quarantine"), alarm(o.quarantined, topCount)},
		{plain("leases"), plain(strconv.Itoa(o.stats.Leases)), plain("failed/s"), plain(rateText(o.failed)), plain("age"), plain(readable(age)), plain("unserved"), unserved},
	}}
}

// titles makes a row of titles.
func titles(names ...string) []cell {
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = cell{name, faint}
	}
	return row
}

// queues are what is pending, those first that somebody should serve.
func (o *overview) queues() *section {
	s := &section{title: "queues"}
	if len(o.stats.Routes) == 0 {
		return s
	}
	s.rows = append(s.rows, titles(routeTitles...))
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
			row := routeRow(r, &o.stats)
			if first {
				row[1] = cell{r.Route + " (nobody serves it)", red}
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
		s.rows = append(s.rows, []cell{
			plain(w.Name), plain(w.Host), plain(strconv.Itoa(w.PID)), plain(strconv.Itoa(w.Turns)), plain(strconv.Itoa(w.Running)),
			plain(fromNow(w.SeenAt, o.at)), plain(strings.Join(w.Orchestrations, ", ")),
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
		row := instanceRow(info, false)
		row[3] = plain(fromNow(info.StartedAt, o.at))
		row = append([]cell{row[0], plain(api.FromTenant(info.Ref.Tenant))}, row[1:]...)
		s.rows = append(s.rows, row)
	}
	return s
}
