package timer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Sinks returns the names of the sinks that this process publishes to.
func (s *Service) Sinks() []string { return slices.Clone(s.sinks) }

// Redeliver publishes the envelope of a fired timer to a sink again, with the same ID, so that a
// broker or receiver with deduplication may drop it. The sink must be one of the tenant's
// ([Config.SinksOf]) or one that the envelope was published to before; otherwise Redeliver
// returns [ErrInvalid].
//
// An envelope in quarantine is redriven, and a pending retry is made immediately; neither
// publishes the envelope twice. For a timer that is armed or cancelled it returns [ErrState].
func (s *Service) Redeliver(ctx context.Context, tenant, key, sink string) (Timer, error) {
	const verb = "redeliver"
	if err := checkName(verb, tenant, key); err != nil {
		return Timer{}, err
	}
	crowd := s.crowd()
	for range backoff.Tries {
		t, err := s.get(ctx, verb, tenant, key)
		if err != nil {
			return Timer{}, err
		}
		if t.Status != Fired {
			return Timer{}, fmt.Errorf("timer: %s %s/%s: it is %s, and has no envelope: %w", verb, tenant, key, t.Status, ErrState)
		}
		if err := s.checkSink(verb, &t, sink); err != nil {
			return Timer{}, err
		}
		tx, err := s.redelivery(ctx, &t, sink)
		if err != nil {
			return Timer{}, wrap(verb, tenant, key, err)
		}
		if tx.Empty() {
			return t, nil
		}
		if err = s.store.Commit(ctx, tx); !errors.Is(err, store.ErrConflict) {
			return t, wrap(verb, tenant, key, err)
		}
		if err := crowd.Sleep(ctx); err != nil {
			return Timer{}, wrap(verb, tenant, key, err)
		}
	}
	return Timer{}, fmt.Errorf("timer: %s %s/%s: too many concurrent changes: %w", verb, tenant, key, ErrConflict)
}

// checkSink returns an error unless the sink is one of the tenant's, or one that the envelope
// went to before. The error names no other tenant's sinks.
func (s *Service) checkSink(verb string, t *Timer, sink string) error {
	known := slices.Clone(s.sinksOf(t.Tenant))
	for i := range t.Deliveries {
		known = append(known, t.Deliveries[i].Sink)
	}
	slices.Sort(known)
	if known = slices.Compact(known); !slices.Contains(known, sink) {
		can := "the tenant has no sinks"
		if len(known) > 0 {
			can = "it can be one of: " + strings.Join(known, ", ")
		}
		return invalid(verb, "%s/%s: unknown sink %q; %s", t.Tenant, t.Key, sink, can)
	}
	if err := outbox.CheckSink(sink); err != nil {
		return invalidName(verb, err)
	}
	return nil
}

// redelivery returns what has the envelope of a timer published to a sink, and makes t what
// the timer then is. It is nothing if the envelope is about to be published anyway.
func (s *Service) redelivery(ctx context.Context, t *Timer, sink string) (*store.Tx, error) {
	tx := &store.Tx{}
	envelope, payload := t.envelope()
	message := outbox.Put(sink, t.Key, &envelope, nil)
	waiting, err := s.waiting(ctx, &message)
	if err != nil {
		return nil, err
	}
	now := s.now(ctx)
	d := t.delivery(sink)
	switch {
	case waiting != nil && !waiting.VisibleAt.After(now), waiting == nil && d.State == outbox.Pending:
		return tx, nil // in the second case it is on its way without having been in the outbox
	case waiting != nil:
		d.State, d.Next = outbox.Retrying, base.Millis(now)
		tx.Retime = []store.Retime{{Ref: message.Ref()}}
	default:
		*d = Delivery{Sink: sink, State: outbox.Pending}
		kept, err := s.quarantined(ctx, &message)
		if err != nil {
			return nil, err
		}
		if kept != nil {
			if tx, err = store.Redrive(*kept); err != nil {
				return nil, err
			}
		}
	}
	t.Version++
	if len(tx.Put) == 0 && len(tx.Retime) == 0 {
		tx.Put = []store.Message{outbox.Put(sink, t.Key, &envelope, t.note(payload, false))}
	}
	tx.PutRecords = []store.PutRecord{{Record: t.record(), Expect: t.Version - 1}}
	return tx, nil
}

// delivery returns the delivery of a timer's envelope to a sink, which may be a new one.
func (t *Timer) delivery(sink string) *Delivery {
	i := slices.IndexFunc(t.Deliveries, func(d Delivery) bool { return d.Sink == sink })
	if i < 0 {
		t.Deliveries = append(t.Deliveries, Delivery{Sink: sink})
		i = len(t.Deliveries) - 1
	}
	return &t.Deliveries[i]
}

// waiting returns a message that is in the outbox already, or nil.
func (s *Service) waiting(ctx context.Context, m *store.Message) (*store.Message, error) {
	pending, err := s.store.Pending(ctx, m.Key, 0)
	if err != nil {
		return nil, err
	}
	for i := range pending {
		if pending[i].ID == m.ID {
			return &pending[i], nil
		}
	}
	return nil, nil
}

// quarantined returns the record of a message that is in quarantine, or nil.
func (s *Service) quarantined(ctx context.Context, m *store.Message) (*store.Record, error) {
	q := store.Query{
		Kind: store.KindQuarantine, Tenant: &m.Key.Tenant, Names: []string{m.Key.Queue},
		Tags: map[string]string{store.TagMessage: m.ID, store.TagKey: m.Key.Name},
	}
	for {
		page, err := s.store.List(ctx, q)
		switch {
		case err != nil:
			return nil, err
		case len(page.Records) > 0:
			return &page.Records[0], nil
		case page.Next == "":
			return nil, nil
		}
		q.Cursor = page.Next
	}
}
