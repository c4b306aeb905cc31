package operation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/lease"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Config is what a service is made of.
type Config struct {
	// Store keeps the operations. It stays the caller's.
	Store store.Store

	// Client is what operations work with: that of the engine on the same store.
	Client *abide.Client

	// Clock measures waits; all times that are kept are the store's. Nil means the system's.
	Clock base.Clock

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger
}

// Service starts operations and, while it runs, does them.
type Service struct {
	store  store.Store
	client *abide.Client
	clock  base.Clock
	log    *slog.Logger
	keeper *lease.Keeper
	slots  chan struct{} // one in it for each instance to which something is being done
}

// New returns a service. It does nothing until [Service.Run].
func New(cfg Config) (*Service, error) {
	switch {
	case cfg.Store == nil:
		return nil, invalid("new service", "Config.Store is missing")
	case cfg.Client == nil:
		return nil, invalid("new service", "Config.Client is missing")
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Store = outage.Watch(outage.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Part: "operations"})
	return &Service{
		store: cfg.Store, client: cfg.Client, clock: cfg.Clock, log: cfg.Logger,
		keeper: lease.NewKeeper(lease.Config{Store: cfg.Store, Clock: cfg.Clock, Logger: cfg.Logger, Lease: leaseLasts}),
		slots:  make(chan struct{}, atOnce),
	}, nil
}

// Start starts an operation. It returns when the operation is durable; a process that calls
// [Service.Run] executes it. If an operation of the tenant has that ID and the same request, Start
// returns it; if its request differs, Start returns [ErrExists].
func (s *Service) Start(ctx context.Context, r Request) (Operation, error) {
	const verb = "start"
	if err := r.check(verb); err != nil {
		return Operation{}, err
	}
	r.Filter = copied(&r.Filter)
	stats, err := s.store.Stats(ctx)
	if err != nil {
		return Operation{}, wrap(verb, r.ID, err)
	}
	if r.ID == "" {
		r.ID = base.NewUUID(stats.Now)
	}
	now := base.Millis(stats.Now)
	o := Operation{
		ID: r.ID, under: tenantName(&r.Filter), Kind: r.Kind, Filter: r.Filter, All: r.All, Reason: r.Reason, By: r.By,
		Status: Pending, CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	tx := &store.Tx{PutRecords: []store.PutRecord{{Record: o.record()}}, Put: []store.Message{o.message()}}
	err = backoff.Retry(ctx, s.clock, isConflict, func() error {
		// An operation with that ID may be under the empty tenant, where the commit does not
		// meet it.
		old, missing := s.Get(ctx, o.under, r.ID)
		switch {
		case errors.Is(missing, ErrNotFound):
			return s.store.Commit(ctx, tx)
		case missing != nil:
			return missing
		case !old.same(&r):
			return fmt.Errorf("operation: %s %s: it is there, and is to %s other instances or in another way: %w", verb, r.ID, old.Kind, ErrExists)
		}
		o = old
		return nil
	})
	if err != nil && !errors.Is(err, ErrExists) {
		err = wrap(verb, r.ID, err)
	}
	if err != nil {
		return Operation{}, err
	}
	return o, nil
}

func isConflict(err error) bool { return errors.Is(err, store.ErrConflict) }

// Get returns an operation of a tenant, or [ErrNotFound]. The tenant is that of
// [Operation.Tenant]; with the empty one, Get also returns an operation about one tenant that an
// earlier release has started, so only callers with access to all tenants may use it.
func (s *Service) Get(ctx context.Context, tenant, id string) (Operation, error) {
	const verb = "get"
	if err := checkText(verb, "ID", id, 1, MaxID); err != nil {
		return Operation{}, err
	}
	rec, err := s.store.Get(ctx, recordKey(tenant, id))
	if err == nil {
		return parseRecord(rec)
	}
	if tenant != "" && errors.Is(err, store.ErrNotFound) {
		// Earlier releases kept all operations under the empty tenant.
		var old store.Record
		switch old, err = s.store.Get(ctx, recordKey("", id)); {
		case err == nil && old.Tags[tagTenant] == tenant:
			return parseRecord(old)
		case err == nil:
			err = store.ErrNotFound
		}
	}
	return Operation{}, wrap(verb, id, err)
}

// Query says which operations to list: those that match all that is set.
type Query struct {
	// Tenant is whose instances they are about: "default" is the empty one. Those that are
	// about all tenants are not among them.
	Tenant string

	Statuses []Status
	Kinds    []Kind

	// Limit is how many at most, [DefaultPage] if it is 0. Cursor is the Next of the page
	// before.
	Limit  int
	Cursor string
}

// Page is a part of a list.
type Page struct {
	Operations []Operation

	// Next is the cursor of the next page, and empty if there is none.
	Next string
}

// List returns operations, the latest first.
func (s *Service) List(ctx context.Context, q Query) (Page, error) {
	const verb = "list"
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return Page{}, invalid(verb, "a page of %d; 1 to %d is allowed", q.Limit, MaxPage)
	}
	query := store.Query{Kind: kind, Descending: true, Limit: q.Limit, Cursor: q.Cursor}
	if q.Tenant != "" {
		query.Tags = map[string]string{tagTenant: q.Tenant}
	}
	for _, status := range q.Statuses {
		if !slices.Contains(Statuses, status) {
			return Page{}, invalid(verb, "unknown status %q; %v are allowed", status, Statuses)
		}
		query.Statuses = append(query.Statuses, string(status))
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(Kinds, kind) {
			return Page{}, invalid(verb, "unknown kind %q; %v are allowed", kind, Kinds)
		}
		query.Names = append(query.Names, string(kind))
	}
	records, err := s.store.List(ctx, query)
	if err != nil {
		return Page{}, wrap(verb, "operations", err)
	}
	page := Page{Next: records.Next, Operations: make([]Operation, 0, len(records.Records))}
	for _, rec := range records.Records {
		o, err := parseRecord(rec)
		if err != nil {
			return Page{}, err
		}
		page.Operations = append(page.Operations, o)
	}
	return page, nil
}

// Cancel cancels an operation of a tenant, as in [Service.Get]. Changes that were made stay, and
// those in progress may still be made. Cancelling a cancelled operation does nothing; for one that
// has ended otherwise Cancel returns [ErrState].
func (s *Service) Cancel(ctx context.Context, tenant, id string) (o Operation, err error) {
	const verb = "cancel"
	err = backoff.Retry(ctx, s.clock, isConflict, func() error {
		var err error
		if o, err = s.Get(ctx, tenant, id); err != nil {
			return err
		}
		if o.Status == Cancelled {
			return nil
		}
		if o.Status.Ended() {
			return fmt.Errorf("operation: %s %s: it has %s at %s: %w", verb, id, o.Status, o.EndedAt.Format(time.RFC3339Nano), ErrState)
		}
		stats, err := s.store.Stats(ctx)
		if err != nil {
			return err
		}
		run := o.message()
		o.end(Cancelled, base.Millis(stats.Now))
		// The process that works on it loses the claim by this.
		tx := &store.Tx{Delete: []store.MessageRef{run.Ref()}, Put: []store.Message{o.message()}}
		tx.PutRecords = []store.PutRecord{{Record: o.record(), Expect: o.Version - 1}}
		if err := s.store.Commit(ctx, tx); err != nil {
			return err
		}
		s.keeper.Lose(run.Key) // if it is this process, it learns of it now
		return nil
	})
	switch {
	case err == nil:
		return o, nil
	case errors.Is(err, ErrState), errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid):
		return Operation{}, err
	default:
		return Operation{}, wrap(verb, id, err)
	}
}

// end gives an operation its last status.
func (o *Operation) end(status Status, now time.Time) {
	if now.Before(o.UpdatedAt) {
		now = o.UpdatedAt
	}
	o.Status, o.EndedAt, o.UpdatedAt = status, now, now
	o.Version++
}
