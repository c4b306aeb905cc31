package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Add adds an action; when it returns, the action is durable. If an action with that ID exists,
// it is returned unchanged, and existed is true.
func (s *Service) Add(ctx context.Context, r Request) (a Action, existed bool, err error) {
	const verb = "add"
	setDefault(&r.Tenant, DefaultTenant)
	if err := r.check(verb); err != nil {
		return Action{}, false, err
	}
	if err := s.permit(verb, r.Tenant, r.Target, Scheduled); err != nil {
		return Action{}, false, err
	}
	now := s.now(ctx)
	a = Action{
		ID: r.ID, Tenant: r.Tenant, Slug: r.Slug, Target: r.Target,
		Trigger: Trigger{Kind: Scheduled, At: base.Due(r.At, r.Delay, s.time.Now(ctx))},
		Status:  Pending, Payload: r.Payload, Idempotent: r.Idempotent,
		CreatedAt: now, UpdatedAt: now, Version: 1, message: 1,
	}
	if a.ID == "" {
		a.ID = base.NewUUID(now)
	}
	return s.add(ctx, verb, a, nil)
}

// Received is a webhook that was received.
type Received struct {
	// Tenant, Slug and Target are those of the [Action] that is created.
	Tenant string
	Slug   string
	Target string

	// Delivery is the sender's ID of the delivery, used for deduplication. It may be empty.
	Delivery string

	// Header holds the headers to keep, and Body the body as it was received.
	Header map[string]string
	Body   []byte
}

// deliveryPrefix begins the IDs of actions made from named deliveries. [Service.Add] refuses IDs
// with it: such an action would make the delivery count as a duplicate.
const deliveryPrefix = "delivery-"

// Receive stores a webhook as an action for the next tick; when it returns, the action is
// durable. The body is not interpreted. If the delivery was received before, Receive returns the
// action of the first time, and existed is true.
func (s *Service) Receive(ctx context.Context, r Received) (a Action, existed bool, err error) {
	const verb = "receive"
	if err := checkWork(verb, r.Tenant, r.Slug, r.Target, nil); err != nil {
		return Action{}, false, err
	}
	if err := s.permit(verb, r.Tenant, r.Target, Webhook); err != nil {
		return Action{}, false, err
	}
	if len(r.Body) > MaxBody {
		return Action{}, false, invalid(verb, "the body has %d bytes, at most %d are allowed", len(r.Body), MaxBody)
	}
	if len(r.Header) > MaxHeaders {
		return Action{}, false, invalid(verb, "%d headers are to be kept, at most %d are allowed", len(r.Header), MaxHeaders)
	}
	for name, value := range r.Header {
		if len(name) > MaxHeader || len(value) > MaxHeader {
			return Action{}, false, invalid(verb, "header %.64q is too long to be kept; at most %d bytes are allowed", name, MaxHeader)
		}
	}
	now := s.now(ctx)
	a = Action{
		ID: base.NewUUID(now), Tenant: r.Tenant, Slug: r.Slug, Target: r.Target,
		Trigger: Trigger{Kind: Webhook, At: now, Header: maps.Clone(r.Header), Size: len(r.Body)},
		Status:  Pending, CreatedAt: now, UpdatedAt: now, Version: 1, message: 1,
	}
	if r.Delivery != "" {
		// The same delivery has the same ID in every process.
		sum := sha256.Sum256([]byte(r.Slug + "\x00" + r.Delivery))
		a.ID = deliveryPrefix + hex.EncodeToString(sum[:16])
	}
	return s.add(ctx, verb, a, r.Body)
}

// add commits an action, and returns the one that is there if there is one.
func (s *Service) add(ctx context.Context, verb string, a Action, body []byte) (_ Action, existed bool, err error) {
	tx := &store.Tx{
		PutRecords: []store.PutRecord{{Record: a.record(), Expect: 0}},
		Put:        []store.Message{a.toMessage(body)},
	}
	err = s.retry(ctx, func() error {
		conflict := s.store.Commit(ctx, tx)
		if !errors.Is(conflict, store.ErrConflict) {
			return wrap(verb, a.Tenant+"/"+a.ID, conflict)
		}
		first, err := s.Get(ctx, a.Tenant, a.ID)
		switch {
		case errors.Is(err, ErrNotFound):
			return wrap(verb, a.Tenant+"/"+a.ID, conflict) // it may not be durable yet, or was removed
		case err != nil:
			return err
		}
		a, existed = first, true
		return nil
	})
	if err != nil {
		return Action{}, false, err
	}
	if !existed {
		s.meters.added(ctx, &a)
	}
	if a.Status == Pending {
		a.Warning = s.warn(ctx, a.Tenant, a.Target)
	}
	return a, existed, nil
}
