package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// measureReads asks for pages and lists while the store is full.
func (r *serveRun) measureReads(ctx context.Context) error {
	if r.opts.Instances == 0 {
		return nil
	}
	for _, step := range []func(context.Context) error{r.load, r.measurePages, r.measureLists} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// webPage is a page that is measured.
type webPage struct {
	path   string
	figure timed

	// mark is what is there at least so many times.
	mark  string
	least int
}

// pageRows is how many things a page of a list shows.
const pageRows = 50

// measurePages asks for pages, one at a time. The first page is the first of all.
func (r *serveRun) measurePages(ctx context.Context) error {
	overview := webPage{"/", figOverviewPage, `href="/instances/` + tenant, 1}
	answer, took, err := r.get(ctx, overview.path)
	if err != nil {
		return err
	}
	if err := overview.check(answer); err != nil {
		return err
	}
	r.report.count(figPages, int64(r.opts.Pages))
	r.report.number(figOverviewFirst, millis(took))
	one, err := r.oneAsleep(ctx)
	if err != nil {
		return err
	}
	for _, p := range []webPage{
		overview,
		{"/instances", figInstancesPage, `<td data-label="Instance">`, min(pageRows, r.opts.Instances)},
		{"/timers", figTimersPage, `<td data-label="Timer">`, min(pageRows, r.opts.Timers)},
		{"/instances/" + url.PathEscape(one.Tenant) + "/" + url.PathEscape(one.ID), figInstancePage, one.ID, 1},
	} {
		h := &Histogram{}
		for range r.opts.Pages {
			answer, took, err := r.get(ctx, p.path)
			if err != nil {
				return err
			}
			if err := p.check(answer); err != nil {
				return err
			}
			h.Record(took)
		}
		r.report.timed(p.figure, h)
	}
	return nil
}

// check returns an error unless the page shows what it must.
func (p *webPage) check(answer []byte) error {
	if n := bytes.Count(answer, []byte(p.mark)); n < p.least {
		return fmt.Errorf("bench: the page %s has %q %d times, want at least %d", p.path, p.mark, n, p.least)
	}
	if !bytes.HasSuffix(bytes.TrimSpace(answer), []byte("</html>")) {
		return fmt.Errorf("bench: the page %s breaks off after %d bytes", p.path, len(answer))
	}
	return nil
}

// oneAsleep returns an instance that sleeps.
func (r *serveRun) oneAsleep(ctx context.Context) (api.Instance, error) {
	query := url.Values{"orchestration": {asleep.Name()}, "status": {string(abide.Running)}, "page_size": {"1"}}
	answer, _, err := r.get(ctx, instancesPath+"?"+query.Encode())
	if err != nil {
		return api.Instance{}, err
	}
	var list api.InstanceList
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Instances) != 1 {
		return api.Instance{}, fmt.Errorf("bench: the list of one instance that sleeps is %s", answer)
	}
	return list.Instances[0], nil
}
