package timer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// ledger is what callers have asked for, and what they were told, by the name of the timer.
// Calls about one timer come one after another; a call that failed may have happened or not.
type ledger struct {
	rig.Ledger[string, []*asked]
	schedules int
}

// asked is a call about one timer.
type asked struct {
	verb         string // schedule, snooze, cancel, cancel all
	tenant, key  string
	call         int           // the number of a schedule, which goes into the payload
	due          time.Time     // that a schedule has asked for, or
	delay        time.Duration // that a schedule or snooze has asked for
	began, ended time.Time
	err          error
	told         timer.Timer // if it did not fail, and says so
}

func (c *asked) String() string {
	what := fmt.Sprintf("%s %s at %v", c.verb, name(c.tenant, c.key), clock(c.began))
	if c.err != nil {
		return what + ": " + c.err.Error()
	}
	return fmt.Sprintf("%s: %s, call %s, due %v, arming %d, version %d", what, c.told.Status, c.told.Payload, clock(c.told.DueAt), c.told.Arming, c.told.Version)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// arms reports whether a call arms a timer, or moves it.
func (c *asked) arms() bool { return c.verb == "schedule" || c.verb == "snooze" }

// number returns the number of the schedule that a timer comes from.
func number(t *timer.Timer) int {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return -1
	}
	return n
}

// begin records the beginning of a call.
func (a *ledger) begin(verb, tenant, key string) *asked {
	c := &asked{verb: verb, tenant: tenant, key: key, began: time.Now()}
	calls := a.Entry(name(tenant, key))
	*calls = append(*calls, c)
	return c
}

// end notes what was told.
func (a *ledger) end(c *asked, told timer.Timer, err error) {
	c.ended, c.told, c.err = time.Now(), told, err
	state := errors.Is(err, timer.ErrState) || errors.Is(err, timer.ErrNotFound)
	switch {
	case err != nil && !errors.Is(err, storetest.ErrFault) && (!state || c.verb == "schedule"):
		a.Problem("%v", c)
	case err == nil && c.verb == "schedule" && !c.mayBeDue(told.DueAt):
		a.Problem("%v: that is not what it asked for", c)
	}
}

// mayBeDue reports whether a call that arms may have made a timer due then.
func (c *asked) mayBeDue(due time.Time) bool {
	switch {
	case c.err == nil && c.told.Version > 0:
		return due.Equal(c.told.DueAt) && (c.verb == "snooze" || c.asks(due))
	case c.verb == "snooze":
		return errors.Is(c.err, storetest.ErrFault)
	default:
		return c.asks(due)
	}
}

// asks reports whether a schedule asks for that due time.
func (c *asked) asks(due time.Time) bool {
	if c.due.IsZero() {
		// The clock that a delay is counted from shows whole milliseconds.
		return !due.Before(c.began.Add(c.delay-time.Millisecond)) && !due.After(c.ended.Add(c.delay+time.Millisecond))
	}
	return due.Equal(c.due)
}

// request returns what asks for a schedule.
func (c *asked) request(a *ledger) timer.Request {
	a.schedules++
	c.call = a.schedules
	return timer.Request{
		Tenant: c.tenant, Key: c.key, DueAt: c.due, Delay: c.delay,
		CorrelationID: "request", Payload: json.RawMessage(strconv.Itoa(c.call)),
	}
}

func (a *ledger) schedule(s *timer.Service, tenant, key string, due time.Time) error {
	c := a.begin("schedule", tenant, key)
	c.due = due
	told, err := s.Schedule(context.Background(), c.request(a))
	a.end(c, told, err)
	return err
}

func (a *ledger) scheduleIn(s *timer.Service, tenant, key string, delay time.Duration) error {
	c := a.begin("schedule", tenant, key)
	c.delay = delay
	told, err := s.Schedule(context.Background(), c.request(a))
	a.end(c, told, err)
	return err
}

func (a *ledger) scheduleAll(s *timer.Service, tenant string, keys []string, due time.Time) error {
	var calls []*asked
	var requests []timer.Request
	for _, key := range keys {
		c := a.begin("schedule", tenant, key)
		c.due = due
		calls, requests = append(calls, c), append(requests, c.request(a))
	}
	told, err := s.ScheduleAll(context.Background(), requests)
	for i, c := range calls {
		if err != nil {
			a.end(c, timer.Timer{}, err)
		} else {
			a.end(c, told[i], nil)
		}
	}
	return err
}

func (a *ledger) snooze(s *timer.Service, tenant, key string, d time.Duration) error {
	c := a.begin("snooze", tenant, key)
	c.delay = d
	told, err := s.Snooze(context.Background(), tenant, key, d)
	a.end(c, told, err)
	return err
}

func (a *ledger) cancel(s *timer.Service, tenant, key string) error {
	c := a.begin("cancel", tenant, key)
	told, err := s.Cancel(context.Background(), tenant, key)
	a.end(c, told, err)
	return err
}

func (a *ledger) cancelAll(s *timer.Service, tenant string) error {
	var calls []*asked
	for _, about := range a.Keys() {
		if first := (*a.Entry(about))[0]; first.tenant == tenant {
			calls = append(calls, a.begin("cancel all", tenant, first.key))
		}
	}
	_, err := s.CancelAll(context.Background(), timer.Filter{Tenant: tenant})
	for _, c := range calls {
		a.end(c, timer.Timer{}, err)
	}
	return err
}

// story returns all that was asked about a timer, for people.
func (a *ledger) story(timer string) string {
	var b strings.Builder
	for _, c := range *a.Entry(timer) {
		fmt.Fprintf(&b, "\n    %v", c)
	}
	return b.String()
}
