package operation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// outcome is the result of an operation for one instance.
type outcome int

const (
	unknown outcome = iota // nobody came to it
	done
	skipped
	failed
)

// tries is how often something is done to an instance that does not work for a reason that
// may pass.
const tries = 8

// turnPage does to the next page of instances what is to be done, and counts. It returns an
// error if the page cannot be listed, or not gone through to its end.
func (s *Service) turnPage(ctx context.Context, o *Operation) error {
	page, err := s.client.List(ctx, o.page())
	if err != nil {
		return err
	}
	outcomes := make([]outcome, len(page.Instances))
	errs := make([]error, len(page.Instances))
	var wg sync.WaitGroup
	for i := range page.Instances {
		s.slots <- struct{}{} // in turn with other operations
		wg.Go(func() {
			defer func() { <-s.slots }()
			outcomes[i], errs[i] = s.do(ctx, o, &page.Instances[i])
		})
	}
	wg.Wait()
	for i, what := range outcomes {
		if what == unknown {
			if err == nil {
				err = errs[i]
			}
			continue
		}
		o.count(what)
		if what == failed && len(o.Errors) < MaxErrors {
			o.Errors = append(slices.Clip(o.Errors), Failure{page.Instances[i].Ref, base.Shorten(errs[i].Error(), MaxError)})
		}
	}
	o.cursor = page.Next
	o.pages++
	return err
}

func (o *Operation) count(what outcome) {
	o.Matched++
	switch what {
	case done:
		o.Done++
	case skipped:
		o.Skipped++
	default:
		o.Failed++
	}
}

// bounds returns the filter by which instances are listed. Those that were started later than
// the operation are not meant.
func (o *Operation) bounds() abide.Filter {
	f := o.Filter
	if end := o.CreatedAt.Add(time.Millisecond); f.To.IsZero() || f.To.After(end) {
		f.To = end
	}
	return f
}

func (o *Operation) page() abide.Filter {
	f := o.bounds()
	f.Limit, f.Cursor = pageSize, o.cursor
	return f
}

// allows reports whether the status of an instance allows what is to be done. Only an instance
// that had ended when the operation was started is restarted or rewound, so that none is twice.
func (o *Operation) allows(i *abide.Info) bool {
	switch o.Kind {
	case Suspend:
		return i.Status == abide.Pending || i.Status == abide.Running
	case Resume:
		return i.Status == abide.Suspended || i.Status == abide.Stalled
	case Restart:
		return i.Status.Ended() && i.EndedAt.Before(o.CreatedAt)
	case Rewind:
		return i.Status == abide.Failed && i.EndedAt.Before(o.CreatedAt)
	case Delete:
		return i.Status.Ended()
	default:
		return !i.Status.Ended()
	}
}

// do does to an instance what is to be done. If that does not work, it is tried again: a few
// times if the store answers, and as often as it takes if it does not, or is full.
func (s *Service) do(ctx context.Context, o *Operation, i *abide.Info) (outcome, error) {
	if ctx.Err() != nil {
		return unknown, nil //nolint:nilerr // the caller looks at ctx
	}
	if !o.allows(i) {
		return skipped, nil
	}
	pause := backoff.Pause{Clock: s.clock, Min: 10 * time.Millisecond, Max: time.Second}
	for left := tries; ; {
		err := s.apply(ctx, o, i.Ref)
		switch {
		case err == nil:
			return done, nil
		case errors.Is(err, abide.ErrState), errors.Is(err, abide.ErrNotFound):
			return skipped, nil
		case ctx.Err() != nil:
			return unknown, nil //nolint:nilerr // the caller looks at ctx
		case outage.Permanent(err):
			return unknown, err
		case errors.Is(err, abide.ErrInvalid), errors.Is(err, store.ErrCorrupt):
			return failed, err
		}
		if !errors.Is(err, store.ErrFull) { // for which the instance can do nothing
			if left--; left == 0 {
				return failed, err
			}
		}
		_ = pause.Sleep(ctx)
		switch was, err := s.wasDone(ctx, o, i.Ref); {
		case err != nil:
			return unknown, err
		case was:
			return done, nil
		}
	}
}

// wasDone reports whether an instance is one to which it was done, although that seemed not to
// work: its status does not allow it any more. It asks until it knows, as nothing may be done
// twice that was done; it returns an error if there is nobody to ask any more.
func (s *Service) wasDone(ctx context.Context, o *Operation, ref abide.Ref) (bool, error) {
	for {
		i, err := s.client.Get(ctx, ref)
		switch {
		case err == nil:
			return !o.allows(&i), nil
		case errors.Is(err, abide.ErrNotFound):
			return true, nil
		case ctx.Err() != nil, outage.Permanent(err), errors.Is(err, store.ErrCorrupt):
			return false, err
		}
		_ = base.Sleep(ctx, s.clock, 50*time.Millisecond)
	}
}

func (s *Service) apply(ctx context.Context, o *Operation, ref abide.Ref) error {
	switch o.Kind {
	case Cancel:
		return s.client.Cancel(ctx, ref, o.Reason)
	case Terminate:
		return s.client.Terminate(ctx, ref, o.Reason)
	case Suspend:
		return s.client.Suspend(ctx, ref, o.Reason)
	case Resume:
		return s.client.Resume(ctx, ref)
	case Restart:
		return s.client.Restart(ctx, ref)
	case Rewind:
		return s.client.Rewind(ctx, ref, o.Reason)
	default:
		return s.client.Delete(ctx, ref)
	}
}

// kindInstance is the kind of the records of instances, and maxTotal how far they are counted.
const (
	kindInstance = "instance"
	maxTotal     = 10_000_000
)

// countPatience is how long an operation counts before it begins. A filter by orchestration or
// tag may cost a look at each instance of the store.
const countPatience = 5 * time.Second

// total returns about how many instances an operation has to look at, or 0 if that is not
// known.
func (s *Service) total(ctx context.Context, o *Operation) int {
	f := o.bounds()
	ctx, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	q := store.Query{
		Kind: kindInstance, Tenant: f.Tenant, Names: f.Orchestrations, From: f.From, To: f.To,
		Tags: base.WithBuild(base.WithParent(f.Tags, f.Parent), f.Build), Prefix: f.Prefix,
	}
	for _, status := range f.Statuses {
		q.Statuses = append(q.Statuses, string(status))
	}
	n, err := s.store.Count(ctx, q, maxTotal)
	if err != nil {
		return 0 // it is only for people
	}
	return n
}

// isTrouble reports whether an error is the store's, and may pass.
func isTrouble(err error) bool {
	return err != nil && !errors.Is(err, abide.ErrInvalid) && !errors.Is(err, store.ErrCorrupt)
}
