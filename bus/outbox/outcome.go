package outbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// State is the state of an envelope at a sink.
type State string

// States of an envelope at a sink.
const (
	Pending   State = "pending"   // nobody has tried yet
	Published State = "published" // the sink has accepted it
	Retrying  State = "retrying"  // the sink has not accepted it, and is tried again
	Failed    State = "failed"    // it is in quarantine
)

// Outcome is the outcome of an attempt to publish an envelope.
type Outcome struct {
	Sink     string
	Name     string // that the envelope was put with
	Note     []byte // likewise
	Envelope bus.Envelope
	State    State
	Attempt  int       // 1 for the first
	At       time.Time // by the clock of the store
	Next     time.Time // when it is tried again, if it is
	Err      error     // why it was not accepted
}

// Notes records the outcomes of envelopes.
type Notes interface {
	// Note returns the records to put in the commit that settles the outcomes. If that commit
	// meets a conflict, it is called again, with again set: then it reads the records before it
	// writes them. It may leave out outcomes that are obsolete.
	Note(ctx context.Context, outcomes []*Outcome, again bool) ([]store.PutRecord, error)
}

// Reasons for which a relay puts messages into quarantine, besides
// [store.ReasonAttempts].
const (
	ReasonRefused   = "refused"   // the sink said that it will never accept the envelope
	ReasonMalformed = "malformed" // the message is not one of this package
)

// item is a claim, and what becomes of it.
type item struct {
	Outcome
	claim  *store.Claim
	m      *store.Message
	reason string // why it goes to quarantine, if it does
	handed bool   // the message is not in the outbox: see [Relay.Hand]
}

func newItem(c *store.Claim, sink *Sink) *item {
	it := &item{claim: c, m: &c.Messages[0]}
	it.Sink, it.Name = sink.Name, strings.TrimPrefix(c.Key.Name, sink.Name+"/")
	var before int
	it.Envelope, it.Note, before, it.Err = decode(it.m.Body)
	it.Attempt, it.At = before+it.m.Attempt, c.Now
	switch {
	case it.Err != nil:
		it.State, it.reason = Failed, ReasonMalformed
	case it.Attempt > sink.Retry.Attempts:
		it.State, it.reason, it.Err = Failed, store.ReasonAttempts, errNoOutcome
	}
	return it
}

// settle notes what the sink made of the envelope.
func (it *item) settle(err error, now time.Time, sink *Sink) {
	it.At, it.Err = now, err
	switch {
	case err == nil:
		it.State = Published
	case errors.Is(err, bus.ErrPermanent), errors.Is(err, bus.ErrInvalid):
		it.State, it.reason = Failed, ReasonRefused
	case it.Attempt >= sink.Retry.Attempts:
		it.State, it.reason = Failed, store.ReasonAttempts
	default:
		it.State = Retrying
		// In whole milliseconds, as the store counts them.
		it.Next = store.FromMillis(store.Millis(now.Add(sink.Retry.delay(it.Attempt, it.Envelope.TenantID+"/"+it.Name, err))))
	}
}

// add puts into tx what the outcome does to the message.
func (it *item) add(tx *store.Tx) {
	switch {
	case it.handed && (it.State == Retrying || it.State == Pending):
		tx.Finish = append(tx.Finish, store.Finish{Lease: it.claim.Lease()})
		tx.Put = append(tx.Put, it.later())
	case it.State == Retrying:
		// It stays, and becomes visible later.
		tx.Finish = append(tx.Finish, store.Finish{Lease: it.claim.Lease(), Keep: []string{it.m.ID}})
		tx.Retime = append(tx.Retime, store.Retime{Ref: it.m.Ref(), VisibleAt: it.Next})
	case it.State == Failed:
		tx.Finish = append(tx.Finish, store.Finish{Lease: it.claim.Lease()})
		m := *it.m
		if it.reason != ReasonMalformed {
			m.Body = encode(&it.Envelope, it.Note, 0) // a redrive begins with the first attempt
		}
		q := store.Quarantine(m, it.Sink, it.reason, it.At)
		q.Record.Tags[store.TagError] = base.Shorten(it.Err.Error(), store.MaxName)
		tx.PutRecords = append(tx.PutRecords, q)
	default:
		tx.Finish = append(tx.Finish, store.Finish{Lease: it.claim.Lease()})
	}
}
