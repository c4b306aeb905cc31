package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/timer"
)

// Tenants of timers that are due at the same instant, and of those that must not wait for
// them.
const (
	herdTenant  = tenant + "-herd"
	otherTenant = tenant + "-other"
)

// letters is noise as text.
var letters = base64.RawURLEncoding.EncodeToString(noise)

// request returns what schedules a timer.
func (r *timersRun) request(mark byte, i int, due time.Time) timer.Request {
	req := timer.Request{Key: r.ledger.key(mark, i), DueAt: due}
	switch mark {
	case markHerd:
		req.Tenant = herdTenant
	case markOther:
		req.Tenant = otherTenant
	default:
		req.Tenant = tenant + "-" + strconv.Itoa(i%r.opts.Tenants)
	}
	switch size := r.opts.Payload; size {
	case 0:
	case 1:
		req.Payload = []byte{'0'}
	default: // text in quotation marks
		at := int(scramble(uint64(i)) % uint64(len(letters)-size))
		req.Payload = append(append(append(make([]byte, 0, size), '"'), letters[at:at+size-2]...), '"')
	}
	return req
}

// farRequest returns what schedules a timer that is not due in the run. They are not
// scheduled in the order in which they are due.
func (r *timersRun) farRequest(i int) timer.Request {
	after := scramble(uint64(i)) % uint64(dueSpread/time.Millisecond)
	return r.request(markFar, i, r.farFrom.Add(time.Duration(after)*time.Millisecond))
}

// takeFar returns the number of the first of n timers that are not due in the run.
func (r *timersRun) takeFar(n int) (from int) {
	if r.farFrom.IsZero() {
		r.farFrom = time.Now().Add(nightfall).Truncate(time.Millisecond)
	}
	from = r.far
	r.far += n
	return from
}

// scheduleBulk schedules the timers with numbers from up to but not including to.
func (r *timersRun) scheduleBulk(ctx context.Context, from, to int, request func(i int) timer.Request) error {
	var next, done atomic.Int64
	next.Store(int64(from))
	defer r.opts.Progress.Watch("scheduling", "timers", int64(to-from), done.Load)()
	bulk := r.opts.Bulk
	c := newCrew(ctx)
	for range loaders {
		c.do(func(ctx context.Context) error {
			requests := make([]timer.Request, 0, bulk)
			for {
				end := int(next.Add(int64(bulk)))
				first, last := end-bulk, min(end, to)
				if first >= last {
					return nil
				}
				requests = requests[:0]
				for i := first; i < last; i++ {
					requests = append(requests, request(i))
				}
				if _, err := r.service.ScheduleAll(ctx, requests); err != nil {
					return fmt.Errorf("bench: schedule timers in bulk: %w", err)
				}
				done.Add(int64(last - first))
			}
		})
	}
	return c.wait()
}

// measureSingle has clients schedule one timer after another, none of which is due in the
// run.
func (r *timersRun) measureSingle(ctx context.Context) error {
	if r.opts.Duration == 0 {
		return nil
	}
	first := r.takeFar(0)
	var taken, done atomic.Int64
	stop := r.opts.Progress.Watch("scheduling singly", "timers", 0, done.Load)
	clients := make([]Histogram, r.opts.Clients)
	s := &sample{}
	watch := startWatch()
	c := newCrew(ctx)
	for k := range clients {
		c.do(func(ctx context.Context) error {
			for time.Since(watch.start) < r.opts.Duration {
				req := r.farRequest(first + int(taken.Add(1)) - 1)
				began := time.Now()
				if _, err := r.service.Schedule(ctx, req); err != nil {
					return fmt.Errorf("bench: schedule a timer: %w", err)
				}
				clients[k].Record(time.Since(began))
				done.Add(1)
			}
			return nil
		})
	}
	err := c.wait()
	watch.stop(s)
	stop()
	if err != nil {
		return err
	}
	r.takeFar(int(done.Load()))
	s.count = done.Load()
	for k := range clients {
		s.latency.Merge(&clients[k])
	}
	r.reportSingle(s)
	return nil
}

func (r *timersRun) reportSingle(s *sample) {
	p := &r.report
	p.count(figClients, int64(r.opts.Clients))
	p.number(figDuration, s.elapsed.Seconds())
	p.number(figScheduledSingle, s.perSecond())
	p.number(figSingleP50, millis(s.latency.Quantile(0.50)))
	p.number(figSingleP99, millis(s.latency.Quantile(0.99)))
	p.number(figSingleMax, millis(s.latency.Max()))
	if s.hasCPU {
		p.number(figSingleCPU, s.cpuEach())
	}
}
