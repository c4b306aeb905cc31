package top

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/instances"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

const (
	// topLatest is how many instances the overview shows.
	topLatest = 50

	// topCount is how far it counts what a person has to look at.
	topCount = 100

	// topStarted is how far it counts instances that were started since it last looked.
	topStarted = 1_000
)

// overview is what there is to see at one moment.
type overview struct {
	at          time.Time // by the store's clock
	stats       store.Stats
	workers     []abide.Worker
	unserved    []abide.Unserved
	stalled     int // topCount means that or more, as in the next one
	quarantined int
	latest      []abide.Info

	// Rates are per second, since the overview before. Negative means unknown.
	started, ended, failed float64
}

// watcher looks at a backend again and again.
type watcher struct {
	b      connect.Backend
	engine *abide.Client
	tally  *tally // nil if the backend has no stream of changes
	last   time.Time
	at     time.Time // by the local clock
	clock  base.Clock
}

// newWatcher returns a watcher. Where the backend tells what changes, it listens until ctx
// ends.
func newWatcher(ctx context.Context, b connect.Backend) (*watcher, error) {
	engine, err := b.Engine()
	if err != nil {
		return nil, err
	}
	w := &watcher{b: b, engine: engine, clock: base.System{}}
	if feed, ok := engine.Transport().(abide.Watcher); ok {
		w.tally = &tally{}
		go w.tally.listen(ctx, feed)
	}
	return w, nil
}

// look reads what there is to see.
func (w *watcher) look(ctx context.Context) (o overview, err error) {
	if o.stats, err = w.b.Stats(ctx); err != nil {
		return o, err
	}
	o.at = o.stats.Now
	if o.workers, err = w.engine.Workers(ctx); err != nil {
		return o, err
	}
	if o.unserved, err = w.engine.Unserved(ctx); err != nil {
		return o, err
	}
	page, err := w.engine.List(ctx, abide.Filter{Descending: true, Limit: topLatest})
	if err != nil {
		return o, err
	}
	o.latest = page.Instances
	if page, err = w.engine.List(ctx, abide.Filter{Statuses: []abide.Status{abide.Stalled}, Limit: topCount}); err != nil {
		return o, err
	}
	o.stalled = len(page.Instances)
	messages, err := w.engine.Quarantine(ctx, abide.QuarantineFilter{Limit: topCount})
	if err != nil {
		return o, err
	}
	o.quarantined = len(messages.Messages)
	err = w.rate(ctx, &o)
	return o, err
}

// rate fills in how much has happened since the last look.
func (w *watcher) rate(ctx context.Context, o *overview) error {
	o.started, o.ended, o.failed = -1, -1, -1
	now, first := w.clock.Now(), w.last.IsZero()
	seconds := o.at.Sub(w.last).Seconds()
	local := now.Sub(w.at).Seconds()
	from := w.last
	w.last, w.at = o.at, now
	ended, failed, known := 0, 0, false
	if w.tally != nil {
		ended, failed, known = w.tally.take()
	}
	if first || seconds <= 0 || local <= 0 {
		return nil
	}
	page, err := w.engine.List(ctx, abide.Filter{From: from, To: o.at, Limit: topStarted})
	if err != nil {
		return err
	}
	o.started = float64(len(page.Instances)) / seconds
	if known {
		o.ended, o.failed = float64(ended)/local, float64(failed)/local
	}
	return nil
}

// tally counts instances that end, as they are told of.
type tally struct {
	mu            sync.Mutex
	ended, failed int
	known         bool
}

// listen counts until ctx ends. What was missed is not counted, and said to be so.
func (t *tally) listen(ctx context.Context, feed abide.Watcher) {
	pause := backoff.Pause{Clock: base.System{}, Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for ctx.Err() == nil {
		t.Set(true)
		for change, err := range feed.Changes(ctx, "") {
			if err != nil {
				t.Set(false)
				if errors.Is(err, abide.ErrMissed) {
					pause.Reset()
				}
				break
			}
			t.count(change)
		}
		if pause.Sleep(ctx) != nil {
			return
		}
	}
}

func (t *tally) Set(known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = known
}

func (t *tally) count(c abide.Change) {
	if c.Deleted || !c.Status.Ended() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	if c.Status == abide.Failed {
		t.failed++
	}
}

// take returns what was counted since the last call, and whether that is all.
func (t *tally) take() (ended, failed int, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended, failed, known = t.ended, t.failed, t.known
	t.ended, t.failed = 0, 0
	return ended, failed, known
}

// totals are sums over all queues.
func (o *overview) totals() (pending, ready int, age time.Duration) {
	for _, r := range o.stats.Routes {
		pending += r.Pending
		ready += r.Ready
		if !r.Oldest.IsZero() && r.Ready > 0 {
			age = max(age, o.at.Sub(r.Oldest))
		}
	}
	return pending, ready, age
}

// topWire is an overview as programs read it.
type topWire struct {
	At          time.Time      `json:"at"`
	Stats       api.Stats      `json:"stats"`
	Workers     []api.Worker   `json:"workers"`
	Unserved    []api.Unserved `json:"unserved"`
	Stalled     int            `json:"stalled"`
	Quarantined int            `json:"quarantined"`
	Started     *float64       `json:"started_per_second,omitempty"`
	Ended       *float64       `json:"ended_per_second,omitempty"`
	Failed      *float64       `json:"failed_per_second,omitempty"`
	Latest      []api.Instance `json:"latest"`
}

func (o *overview) wire() topWire {
	w := topWire{
		At: o.at, Stats: api.FromStats(&o.stats), Stalled: o.stalled, Quarantined: o.quarantined,
		Workers: []api.Worker{}, Unserved: []api.Unserved{}, Latest: instances.Rows.Wires(o.latest),
	}
	for i := range o.workers {
		w.Workers = append(w.Workers, api.FromWorker(&o.workers[i]))
	}
	for _, u := range o.unserved {
		w.Unserved = append(w.Unserved, api.Unserved(u))
	}
	for _, rate := range []struct {
		to   **float64
		from float64
	}{{&w.Started, o.started}, {&w.Ended, o.ended}, {&w.Failed, o.failed}} {
		if rate.from >= 0 {
			*rate.to = &rate.from
		}
	}
	return w
}

// rateText is how people read a rate.
func rateText(perSecond float64) string {
	switch {
	case perSecond < 0:
		return "–"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	default:
		return strconv.FormatFloat(perSecond, 'f', 0, 64)
	}
}

// capped is how people read a number that was counted so far.
func capped(n, most int) string {
	if n >= most {
		return strconv.Itoa(most) + "+"
	}
	return strconv.Itoa(n)
}
