package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/server/api"
)

// webPage is a page that is measured.
type webPage struct {
	name string // of its figures
	path string

	// mark is what is there at least so many times.
	mark  string
	least int
}

// pageRows is how many things a page of a list shows.
const pageRows = 50

// measurePages asks for pages, one at a time. The first page is the first of all.
func (w *workload) measurePages(ctx context.Context) error {
	overview := webPage{"page", "/", `href="/instances/` + tenant, 1}
	took, err := w.read(ctx, overview)
	if err != nil {
		return err
	}
	w.run.Report.Add("pages", w.pages)
	w.run.Report.Add("page_first_ms", took)
	one, err := w.oneAsleep(ctx)
	if err != nil {
		return err
	}
	for _, p := range []webPage{
		overview,
		{"page_instances", "/instances", `<td data-label="Instance">`, min(pageRows, w.instances)},
		{"page_timers", "/timers", `<td data-label="Timer">`, min(pageRows, w.timers)},
		{"page_instance", "/instances/" + url.PathEscape(one.Tenant) + "/" + url.PathEscape(one.ID), one.ID, 1},
	} {
		h := &bench.Histogram{}
		for range w.pages {
			took, err := w.read(ctx, p)
			if err != nil {
				return err
			}
			h.Record(took)
		}
		w.run.Report.Quantiles(p.name, "ms", h)
	}
	return nil
}

// read reads a page, and returns how long that took.
func (w *workload) read(ctx context.Context, p webPage) (time.Duration, error) {
	answer, took, err := w.get(ctx, p.path)
	if err != nil {
		return 0, err
	}
	return took, p.check(answer)
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
func (w *workload) oneAsleep(ctx context.Context) (api.Instance, error) {
	query := url.Values{"orchestration": {sleeper.Name()}, "status": {string(abide.Running)}, "page_size": {"1"}}
	answer, _, err := w.get(ctx, instancesPath+"?"+query.Encode())
	if err != nil {
		return api.Instance{}, err
	}
	var list api.InstanceList
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Instances) != 1 {
		return api.Instance{}, fmt.Errorf("bench: the list of one instance that sleeps is %s", answer)
	}
	return list.Instances[0], nil
}
