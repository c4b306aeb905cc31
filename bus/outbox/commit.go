package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// How often notes are written anew after a conflict: those of a batch before each half of
// it is settled by itself, and that of an envelope before it is settled without one.
const (
	batchTries = 3
	noteTries  = 30
)

// settleLeases is for how many leases it is tried to settle a batch. They are renewed
// meanwhile, and what is given up is published again.
const settleLeases = 4

// commit settles items. Each of them counts for itself: if one has lost its claim, or
// its note meets a conflict, the others are settled all the same.
func (p *publisher) commit(items []*item) {
	ctx, cancel := context.WithTimeout(context.Background(), settleLeases*p.r.cfg.LeaseDuration)
	defer cancel()
	store.SplitTenants(items, func(it *item) string { return it.claim.Key.Tenant }, func(items []*item) error {
		err := p.settle(ctx, items)
		switch {
		case err == nil:
		case errors.Is(err, store.ErrTooLarge) && len(items) > 1: // each half by itself
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrClaimLost):
			if len(items) == 1 {
				items[0].State = lost
				p.r.log.Debug("envelope settled by another process", "sink", p.sink.Name, "envelope", items[0].Envelope.ID, "error", err)
			}
		default:
			p.r.log.Error("envelopes not settled, they may be published again", "sink", p.sink.Name, "envelopes", len(items), "error", err)
			for _, it := range items {
				it.State = lost
			}
		}
		return err
	})
}

// settle commits the outcomes of items. It tries until the outcome of the commit is known:
// the envelopes are out, and would be published again.
func (p *publisher) settle(ctx context.Context, items []*item) error {
	trouble := backoff.Outage(p.r.clock)
	crowd := backoff.Pause{Clock: p.r.clock, Min: time.Millisecond, Max: 200 * time.Millisecond}
	for conflicts := 0; ; {
		tx, err := p.tx(ctx, items, conflicts)
		if err == nil {
			err = p.r.cfg.Store.Commit(ctx, tx)
		}
		switch {
		case errors.Is(err, store.ErrConflict) && (conflicts < batchTries || (len(items) == 1 && conflicts < noteTries)):
			// The conflicting commit may not be durable yet, and not visible until then.
			if conflicts++; crowd.Sleep(ctx) != nil {
				return err
			}
		case err == nil, errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrClaimLost),
			outage.Permanent(err), errors.Is(err, store.ErrInvalid):
			return err
		default:
			if trouble.Sleep(ctx) != nil {
				return err
			}
		}
	}
}

// tx returns what settles items, after so many conflicts. It returns an error if it is
// worth another try.
func (p *publisher) tx(ctx context.Context, items []*item, conflicts int) (*store.Tx, error) {
	tx := &store.Tx{}
	for _, it := range items {
		it.add(tx)
	}
	if p.r.cfg.Notes == nil || conflicts == noteTries {
		return tx, nil
	}
	notes, err := p.r.cfg.Notes.Note(ctx, outcomes(items), conflicts > 0)
	if errors.Is(err, store.ErrCorrupt) {
		p.r.log.Error("outcome of envelopes not recorded", "sink", p.sink.Name, "error", err)
		return tx, nil
	}
	tx.PutRecords = append(tx.PutRecords, notes...)
	return tx, err
}

// lost is the state of an envelope that another process settles.
const lost State = "lost"

// outcomes returns the outcomes of items.
func outcomes(items []*item) []*Outcome {
	list := make([]*Outcome, 0, len(items))
	for _, it := range items {
		if it.State != Pending { // nothing has become of it yet
			list = append(list, &it.Outcome)
		}
	}
	return list
}
