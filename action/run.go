package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/store"
)

// run has the target do an action, and settles what came of it.
func (s *Service) run(t *task) {
	defer s.release(t)
	// Another process may have added it, with another configuration, or this one before its
	// configuration was changed.
	if err := s.permit("run", t.a.Tenant, t.a.Target, t.a.Trigger.Kind); err != nil {
		s.settle(t, Outcome{}, err)
		return
	}
	d := s.cfg.Targets[t.a.Target]
	ctx, cancel := context.WithCancelCause(s.work)
	defer cancel(nil)
	timeout := s.clock.AfterFunc(d.Timeout, func() { cancel(fmt.Errorf("%w after %v", ErrTimeout, d.Timeout)) })
	defer timeout()
	s.keeper.Keep(t.claim, func() { cancel(ErrCancelled) })
	defer s.keeper.Drop(t.claim.Lease()) // not before it is settled
	s.meters.started(ctx, &t.a)
	began := s.clock.Now()
	out, err := safely(ctx, d.Target, Run{Action: t.a, Body: t.body})
	out.Duration = s.clock.Now().Sub(began)
	s.meters.ran(ctx, out.Duration)
	cause := context.Cause(ctx)
	if err != nil && errors.Is(cause, ErrCancelled) {
		// Its record says that it was cancelled, or the lease is over: then the next claim decides,
		// as after a crash. A keeper gives a lease up before it ends, so the store would still
		// accept the failure of a run that was only interrupted.
		s.logLost(t)
		return
	}
	if err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	s.settle(t, out, err)
}

// logLost logs that a run ended whose outcome is not recorded.
func (s *Service) logLost(t *task) {
	s.log.Info("action cancelled or its lease lost while it ran", "tenant", t.a.Tenant, "action", t.a.ID, "slug", t.a.Slug)
}

// safely makes an error of a panic.
func safely(ctx context.Context, target Target, r Run) (out Outcome, err error) {
	if p := claimloop.Catch(func() { out, err = target.Run(ctx, r) }); p != nil {
		return Outcome{Output: string(p.Stack)}, p
	}
	return out, err
}

// settle commits what came of a run.
func (s *Service) settle(t *task, out Outcome, err error) {
	// The effect is there: it is worth some patience to note it.
	ctx, cancel := context.WithTimeout(s.settling, s.cfg.LeaseDuration)
	defer cancel()
	before := t.a.Version
	s.keepOutput(&out)
	t.end(s.now(ctx), out, err, s)
	tx := &store.Tx{
		Finish:     []store.Finish{{Lease: t.claim.Lease()}},
		PutRecords: []store.PutRecord{{Record: t.a.record(), Expect: before}},
	}
	t.keepBody(tx)
	if t.a.Status == Pending {
		tx.Put = append(tx.Put, t.a.toMessage(t.body))
	} else {
		tx.Put = append(tx.Put, t.a.tellSchedule()...)
	}
	err = lease.Insist(ctx, s.store, s.clock, tx)
	switch {
	case err == nil:
		s.meters.ended(ctx, t.a.Status)
		s.report(&t.a)
	case errors.Is(err, store.ErrClaimLost), errors.Is(err, store.ErrConflict):
		s.logLost(t)
	default:
		s.log.Error("action outcome not committed", "tenant", t.a.Tenant, "action", t.a.ID, "status", t.a.Status, "error", err)
	}
}

// end gives the action the status that follows from how its run ended.
func (t *task) end(now time.Time, out Outcome, err error, s *Service) {
	a := &t.a
	d := s.cfg.Targets[a.Target]
	now = base.Later(now, a.StartedAt) // clocks are compared only now and then
	a.UpdatedAt, a.EndedAt, a.Outcome, a.claim = now, now, out, ""
	a.Version++
	if err == nil {
		a.Status = Completed
		return
	}
	a.Status, a.Reason = Failed, shorten(err.Error(), MaxReason)
	_, crashed := err.(recoveredError) //nolint:errorlint // it is never wrapped
	switch {
	case crashed && s.mayRepeat(a):
		a.again(now) // it waits for a process that has the target
	case crashed, errors.Is(err, ErrForbidden), errors.Is(err, ErrState):
	case errors.Is(err, ErrStopping) && s.idempotent(a):
		a.again(now)
		a.Attempt-- // it was not its fault
	case a.Attempt < d.Attempts && !errors.Is(err, ErrStopping):
		a.again(now.Add(d.delay(a)))
	}
}

// again makes the action pending. Its reason tells what went wrong last.
func (a *Action) again(at time.Time) {
	a.Status, a.EndedAt = Pending, time.Time{}
	a.RetryAt = at
	a.message = a.Version
}

// keepBody puts into tx what becomes of a webhook's body: it is kept after a failure, and
// goes with the message otherwise.
func (t *task) keepBody(tx *store.Tx) {
	if t.a.Trigger.Kind != Webhook {
		return
	}
	switch t.a.Status {
	case Failed:
		tx.PutRecords = append(tx.PutRecords, t.a.bodyRecord(t.body))
	case Completed:
		tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: bodyKey(t.a.Tenant, t.a.ID), Expect: store.AnyVersion})
	}
}

// bodyRecord returns what keeps a webhook's body when there is no message to keep it.
func (a *Action) bodyRecord(body []byte) store.PutRecord {
	return store.PutRecord{
		Record: store.Record{Key: bodyKey(a.Tenant, a.ID), Name: a.Slug, Time: a.EndedAt, Body: body},
		Expect: store.AnyVersion,
	}
}

// keepOutput cuts the middle out of output that is longer than what is kept.
func (s *Service) keepOutput(out *Outcome) {
	keep := max(s.cfg.Output, 0)
	out.Output = strings.ToValidUTF8(out.Output, "�")
	if n := len(out.Output); n > keep {
		head, tail := shorten(out.Output, keep/2), strings.ToValidUTF8(out.Output[n-(keep-keep/2):], "")
		out.Cut += int64(n - len(head) - len(tail))
		out.Output = head + tail
	}
}

// report says what a person should know.
func (s *Service) report(a *Action) {
	attrs := []any{"tenant", a.Tenant, "action", a.ID, "slug", a.Slug, "target", a.Target, "attempt", a.Attempt, "duration", a.Outcome.Duration}
	switch a.Status {
	case Completed:
		s.log.Info("action completed", attrs...)
	case Pending:
		s.log.Warn("action failed, retrying", append(attrs, "at", a.Due(), "reason", a.Reason)...)
	default:
		s.log.Error("action failed", append(attrs, "exit", a.Outcome.ExitCode, "reason", a.Reason)...)
	}
}

// shorten cuts a text to so many bytes, and leaves no half of a character.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
