package action

import (
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Names in the store.
const (
	kind     = "action"            // of the records of actions
	kindBody = "action.body"       // of the records of webhooks' bodies that are kept after a failure
	queue    = roster.QueueActions // of messages; their route is the target
)

// First bytes of a record's body and of a message's. docs/format.md says what follows.
const (
	recordFormat  = 1
	messageFormat = 1
)

func recordKey(tenant, id string) store.RecordKey {
	return store.RecordKey{Kind: kind, Tenant: tenant, ID: id}
}

func bodyKey(tenant, id string) store.RecordKey {
	return store.RecordKey{Kind: kindBody, Tenant: tenant, ID: id}
}

// messageRef names the message of an action that became pending with that version.
func messageRef(tenant, id string, version int64) store.MessageRef {
	return store.MessageRef{
		Key: store.Key{Queue: queue, Tenant: tenant, Name: id},
		ID:  strconv.FormatInt(version, 36),
	}
}

// record returns the action as a record.
func (a *Action) record() store.Record {
	return store.Record{
		Key:    recordKey(a.Tenant, a.ID),
		Status: string(a.Status),
		Name:   a.Slug,
		Time:   a.at(),
		Body:   a.appendBody(make([]byte, 0, 160+len(a.Reason)+len(a.Payload)+len(a.Outcome.Output))),
	}
}

// appendBody appends what the other fields of a record do not tell.
func (a *Action) appendBody(out []byte) []byte {
	out = append(out, recordFormat)
	out = wire.AppendNumber(out, uint64(a.message))
	out = wire.AppendString(out, a.claim)
	out = wire.AppendString(out, a.Target)
	out = wire.AppendString(out, a.Trigger.Kind)
	out = wire.AppendTime(out, a.Trigger.At)
	out = wire.AppendMap(out, a.Trigger.Header)
	out = wire.AppendNumber(out, uint64(a.Trigger.Size))
	out = wire.AppendString(out, a.Reason)
	out = wire.AppendString(out, a.Payload)
	out = wire.AppendFlag(out, a.Idempotent)
	out = wire.AppendNumber(out, uint64(a.Attempt))
	out = wire.AppendTime(out, a.RetryAt)
	out = wire.AppendString(out, a.Schedule)
	out = wire.AppendTime(out, a.RunAt)
	out = wire.AppendFlag(out, a.tells)
	out = wire.AppendTimes(out, a.CreatedAt, a.UpdatedAt, a.StartedAt, a.EndedAt)
	out = wire.AppendNumber(out, uint64(a.Outcome.ExitCode))
	out = wire.AppendNumber(out, uint64(a.Outcome.Duration))
	out = wire.AppendString(out, a.Outcome.Output)
	return wire.AppendNumber(out, uint64(a.Outcome.Cut))
}

// read reads what appendBody wrote.
func (a *Action) read(r *wire.Reader) {
	r.Format(recordFormat)
	a.message = int64(r.Number())
	a.claim = r.String()
	a.Target = r.String()
	a.Trigger.Kind = TriggerKind(r.String())
	a.Trigger.At = r.Time()
	a.Trigger.Header = r.Map()
	a.Trigger.Size = int(r.Number())
	a.Reason = r.String()
	if payload := r.Bytes(); len(payload) > 0 {
		a.Payload = payload
	}
	a.Idempotent = r.Flag()
	a.Attempt = int(r.Number())
	a.RetryAt = r.Time()
	a.Schedule = r.String()
	a.RunAt = r.Time()
	a.tells = r.Flag()
	a.CreatedAt, a.UpdatedAt, a.StartedAt, a.EndedAt = r.Time(), r.Time(), r.Time(), r.Time()
	a.Outcome.ExitCode = int(r.Number())
	a.Outcome.Duration = time.Duration(r.Number())
	a.Outcome.Output = r.String()
	a.Outcome.Cut = int64(r.Number())
}

func parseRecord(rec store.Record) (Action, error) {
	a := Action{
		Tenant: rec.Key.Tenant, ID: rec.Key.ID, Slug: rec.Name,
		Status: Status(rec.Status), Version: rec.Version,
	}
	r := wire.Reader{Data: rec.Body}
	a.read(&r)
	if err := r.End(); err != nil {
		return Action{}, fmt.Errorf("action: record %v: %w: %w", rec.Key, err, store.ErrCorrupt)
	}
	return a, nil
}

// toMessage returns what makes a pending action happen. It says all that a run needs, so that
// nothing need be read then. Body is that of a webhook.
func (a *Action) toMessage(body []byte) store.Message {
	ref := messageRef(a.Tenant, a.ID, a.Version)
	out := append(make([]byte, 0, 192+len(a.Slug)+len(a.Payload)+len(body)), messageFormat)
	out = wire.AppendNumber(out, uint64(a.Version))
	out = wire.AppendString(out, a.Slug)
	out = wire.AppendString(out, a.appendBody(nil))
	return store.Message{
		Key: ref.Key, ID: ref.ID, Route: a.Target, VisibleAt: a.Due(),
		Body: append(out, body...),
	}
}

func parseMessage(m *store.Message) (a Action, body []byte, err error) {
	a = Action{Tenant: m.Key.Tenant, ID: m.Key.Name, Status: Pending}
	r := wire.Reader{Data: m.Body}
	r.Format(messageFormat)
	a.Version = int64(r.Number())
	a.Slug = r.String()
	inner := wire.Reader{Data: r.Bytes()}
	if r.Err == nil {
		a.read(&inner)
		r.Err = inner.End()
	}
	if r.Err != nil {
		return Action{}, nil, fmt.Errorf("action: message %v: %w", m.Ref(), r.Err)
	}
	return a, r.Data, nil
}
