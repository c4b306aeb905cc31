package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// KindQuarantine is the kind of the records that are quarantined messages. They
// are listed, read and deleted like any other record: the record's Name is the
// queue, its Status the reason, its Time when it happened, and its tags are those
// named here.
const KindQuarantine = "quarantine"

// Tags of a quarantined message.
const (
	TagKey     = "key"
	TagMessage = "message"
	TagRoute   = "route"
	TagError   = "error" // the last error, if it is known
)

// Reasons for which a store puts messages into quarantine. Callers may have more.
const (
	ReasonAttempts = "attempts" // it was delivered as often as is allowed
	ReasonExpired  = "expired"  // its key had no route for as long as its TTL
)

// quarantined is the body of a quarantine record, as JSON, so that a person can
// read it with any tool.
type quarantined struct {
	Queue   []byte        `json:"queue"` // names may hold any bytes: base64 keeps them
	Tenant  []byte        `json:"tenant"`
	Name    []byte        `json:"name"`
	ID      []byte        `json:"id"`
	Route   []byte        `json:"route,omitempty"`
	TTL     time.Duration `json:"ttl_ns,omitempty"`
	Attempt int           `json:"attempt"`
	PutAt   int64         `json:"put_at_ms"`
	Body    []byte        `json:"body"`
}

// Quarantine returns the record that a message becomes in quarantine. A backend
// puts it in the commit that removes the message; so does a caller that finds a
// message which it can never handle. The ID is made of all that is known of the
// message and of the time, so that a message which comes back and fails again does
// not replace its past self.
func Quarantine(m Message, route, reason string, now time.Time) PutRecord {
	body, err := json.Marshal(quarantined{
		Queue: []byte(m.Key.Queue), Tenant: []byte(m.Key.Tenant), Name: []byte(m.Key.Name), ID: []byte(m.ID),
		Route: []byte(route), TTL: m.TTL, Attempt: m.Attempt, PutAt: RecordMillis(m.PutAt), Body: m.Body,
	})
	if err != nil {
		panic(err) // a struct of bytes and numbers always marshals
	}
	sum := sha256.Sum256(append(body, reason...))
	return PutRecord{
		Expect: AnyVersion,
		Record: Record{
			Key: RecordKey{
				Kind:   KindQuarantine,
				Tenant: m.Key.Tenant,
				ID:     fmt.Sprintf("%012x-%s", now.UnixMilli(), hex.EncodeToString(sum[:10])),
			},
			Status: reason,
			Name:   m.Key.Queue,
			Time:   now,
			Tags:   map[string]string{TagKey: m.Key.Name, TagMessage: m.ID, TagRoute: route},
			Body:   body,
		},
	}
}

// Quarantined returns the message in a quarantine record, with the route that its
// key had.
func Quarantined(r Record) (Message, error) {
	if r.Key.Kind != KindQuarantine {
		return Message{}, invalid("read quarantined message", "record %v is not of kind %q", r.Key, KindQuarantine)
	}
	var q quarantined
	if err := json.Unmarshal(r.Body, &q); err != nil {
		return Message{}, fmt.Errorf("store: read quarantined message %v: %w: %w", r.Key, err, ErrCorrupt)
	}
	return Message{
		Key: Key{Queue: string(q.Queue), Tenant: string(q.Tenant), Name: string(q.Name)},
		ID:  string(q.ID), Route: string(q.Route), TTL: q.TTL,
		Attempt: q.Attempt, PutAt: FromMillis(q.PutAt), Body: q.Body,
	}, nil
}

// Redrive returns the Tx that puts a quarantined message back into its queue,
// visible at once and with no attempts counted, and removes the record. Of two
// that redrive the same record, one gets [ErrConflict].
//
// The message is put with the route that its key had; who knows that the key has
// moved to another one since changes the Tx before the commit. If a message with its
// ID is pending again, that is the message, and the quarantined one is dropped.
func Redrive(r Record) (*Tx, error) {
	m, err := Quarantined(r)
	if err != nil {
		return nil, err
	}
	return &Tx{
		Put:           []Message{m},
		DeleteRecords: []DeleteRecord{{Key: r.Key, Expect: r.Version}},
	}, nil
}
