package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// Timers are the timers of a server. Its methods do what those of [timer.Service] with these
// names do.
type Timers struct{ c *Client }

// Timers returns the server's timers.
func (c *Client) Timers() *Timers { return &Timers{c} }

// Schedule arms a timer. A request with a position is refused: positions are for what is read
// from a log, by the process that has the service.
func (t *Timers) Schedule(ctx context.Context, r timer.Request) (timer.Timer, error) {
	if err := checkRequest("schedule", &r); err != nil {
		return timer.Timer{}, err
	}
	header := http.Header{}
	if r.IfVersion != 0 {
		header.Set("If-Match", etag(r.IfVersion))
	}
	if r.IfAbsent {
		header.Set("If-None-Match", "*")
	}
	got, err := t.one(ctx, http.MethodPut, where("timers", r.Tenant, r.Key), header, api.ToNewTimer(&r))
	if p, ok := errors.AsType[*problem](err); ok && p.Code == api.CodePrecondition && r.IfAbsent && r.IfVersion == 0 {
		p.is = timer.ErrExists
	}
	return got, err
}

// ScheduleAll schedules timers, all in one commit or none.
func (t *Timers) ScheduleAll(ctx context.Context, requests []timer.Request) ([]timer.Timer, error) {
	const verb = "schedule all"
	if len(requests) == 0 {
		return []timer.Timer{}, nil
	}
	for i := range requests {
		if err := checkRequest(verb, &requests[i]); err != nil {
			return nil, err
		}
	}
	var list api.TimerList
	if _, err := t.c.call(ctx, http.MethodPost, "/api/v1/timers/bulk", nil, api.ToNewTimers(requests), &list); err != nil {
		return nil, err
	}
	return list.All(), nil
}

// Get returns a timer.
func (t *Timers) Get(ctx context.Context, tenant, key string) (timer.Timer, error) {
	return t.verb(ctx, "get", http.MethodGet, tenant, key, nil, nil)
}

// List returns a page of the timers that match f, as [timer.Service.List] does.
func (t *Timers) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	q := page(f.Limit, f.Cursor)
	set(q, "tenant", f.Tenant)
	statuses := make([]string, len(f.Statuses))
	for i, status := range f.Statuses {
		statuses[i] = string(status)
	}
	set(q, "status", strings.Join(statuses, ","))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	set(q, "correlation_id", f.CorrelationID)
	set(q, "key_prefix", f.KeyPrefix)
	if f.Descending {
		q.Set("latest", "true")
	}
	var list api.TimerList
	if _, err := t.c.call(ctx, http.MethodGet, "/api/v1/timers", q, nil, &list); err != nil {
		return timer.Page{}, err
	}
	return timer.Page{Timers: list.All(), Next: list.NextPageToken}, nil
}

// All returns the timers that match f, page by page. It is [timer.Service.All] of the server: the
// sequence is no snapshot, and ends after the first error.
func (t *Timers) All(ctx context.Context, f timer.Filter) iter.Seq2[timer.Timer, error] {
	return pages.All(f.Cursor, func(cursor string) ([]timer.Timer, string, error) {
		f := f
		f.Cursor = cursor
		page, err := t.List(ctx, f)
		return page.Timers, page.Next, err
	})
}

// Cancel cancels a timer.
func (t *Timers) Cancel(ctx context.Context, tenant, key string) (timer.Timer, error) {
	return t.verb(ctx, "cancel", http.MethodDelete, tenant, key, nil, nil)
}

// CancelIf cancels a timer that has that version.
func (t *Timers) CancelIf(ctx context.Context, tenant, key string, version int64) (timer.Timer, error) {
	return t.verb(ctx, "cancel", http.MethodDelete, tenant, key, http.Header{"If-Match": {etag(version)}}, nil)
}

// CancelAll cancels the armed timers of a tenant that match f, and returns how many. After an
// error it returns 0, however many were cancelled by then; calling it again goes on from
// there.
func (t *Timers) CancelAll(ctx context.Context, f timer.Filter) (int, error) {
	const verb = "cancel all"
	switch {
	case f.Tenant == "":
		return 0, refuse(verb, "no tenant: timers are cancelled for one tenant at a time")
	case len(f.Statuses) > 0:
		return 0, refuse(verb, "statuses are given, and only armed timers can be cancelled")
	case f.Limit != 0 || f.Cursor != "":
		return 0, refuse(verb, "a limit or a cursor is given, and all timers that match are cancelled")
	}
	for _, name := range []string{f.Tenant, f.CorrelationID, f.KeyPrefix} {
		if !utf8.ValidString(name) {
			return 0, refuse(verb, fmt.Sprintf("%q is not UTF-8", name))
		}
	}
	in := api.TimerCancellation{Tenant: f.Tenant, From: f.From, To: f.To, CorrelationID: f.CorrelationID, KeyPrefix: f.KeyPrefix}
	var out api.TimersCancelled
	_, err := t.c.call(ctx, http.MethodPost, "/api/v1/timers/cancel", nil, in, &out)
	return out.Cancelled, err
}

// Snooze has a timer fire later.
func (t *Timers) Snooze(ctx context.Context, tenant, key string, d time.Duration) (timer.Timer, error) {
	return t.verb(ctx, "snooze", http.MethodPost, tenant, key, nil, api.TimerSnooze{Delay: api.Duration(d)}, "snooze")
}

// Redeliver has the envelope of a timer that has fired published to a sink.
func (t *Timers) Redeliver(ctx context.Context, tenant, key, sink string) (timer.Timer, error) {
	return t.verb(ctx, "redeliver", http.MethodPost, tenant, key, nil, api.TimerRedelivery{Sink: sink}, "redeliver")
}

// verb does something to a timer that has a name.
func (t *Timers) verb(ctx context.Context, verb, method, tenant, key string, header http.Header, in any, path ...string) (timer.Timer, error) {
	if err := checkTimer(verb, tenant, key); err != nil {
		return timer.Timer{}, err
	}
	return t.one(ctx, method, where("timers", tenant, key, path...), header, in)
}

func (t *Timers) one(ctx context.Context, method, path string, header http.Header, in any) (timer.Timer, error) {
	var out api.Timer
	if _, err := t.c.send(ctx, method, path, nil, header, in, &out); err != nil {
		return timer.Timer{}, err
	}
	return out.Timer(), nil
}

// checkTimer finds names that a path or JSON does not carry as they are.
func checkTimer(verb, tenant, key string) error {
	for _, name := range []string{tenant, key} {
		switch {
		case name == "":
			return refuse(verb, "a tenant and a key are needed")
		case name == "/":
			return refuse(verb, "a tenant or a key that is a slash and nothing else cannot be named in a path")
		case !utf8.ValidString(name):
			return refuse(verb, fmt.Sprintf("%q is not UTF-8", name))
		}
	}
	return nil
}

func checkRequest(verb string, r *timer.Request) error {
	switch {
	case r.Position.Source != "":
		return refuse(verb, "a position is given, which only the process that has the service can take")
	case !utf8.ValidString(r.CorrelationID):
		return refuse(verb, fmt.Sprintf("the correlation ID %q is not UTF-8", r.CorrelationID))
	}
	return checkTimer(verb, r.Tenant, r.Key)
}

func refuse(verb, why string) error {
	return fmt.Errorf("remote: %s: %s: %w", verb, why, timer.ErrInvalid)
}

// etag returns a version as the header If-Match has it.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }
