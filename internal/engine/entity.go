package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// An entity is a durable object: it has a state, and operations that run one after the other. Its ID is
// "@name@key", the name in lower case. It has no history: what is known of it is its record, and what reaches
// it are messages in the queue "entities", whose route is the name of the entity.
//
// A claim of an entity is one batch. Its operations run in one call of the [EntityCode], and all that comes of
// them is one commit: the record, the answers to callers, signals to other entities, starts of orchestrations
// and the end of the claim. So an operation may run more than once, but its effect on the state, and all that
// it sends, is there once. A commit expects the version of the record that the batch has read.
//
// # Locks
//
// An instance locks a set of entities by one request, which goes from one to the next in the order of their
// IDs, so that two instances cannot wait for each other. An entity that is free is locked and passes the request
// on in the same commit; the last one answers the instance. While an entity is locked, operations of its holder
// run; all others, and further requests, wait in its record in their order ([MaxEntityBacklog]).
//
// Locks that the instance holds or has requested are in its ledger, and the commit that ends its execution
// releases them (dropOpen), whatever the end is. Locks that were granted are released one by one. A request
// that was not is followed by a message that takes the same way: each entity handles its messages in order, so
// the release never overtakes the request, and ends where the request waits. No entity has to remember requests
// that it must not grant any more.
//
// # Failures
//
//   - An operation that fails is answered with its failure; the others of its batch go on.
//   - If the context of a batch has ended, because the engine is closing or has lost the claim, a failure in its
//     outcome may be that of the context. The outcome is dropped and the batch runs again, which does not count.
//   - If the code is elsewhere and lost ([ErrUnavailable]), the batch is tried again, which does not count.
//   - If the code fails as a whole, the batch is tried again. From the fourth time on the first operation runs
//     alone, so that after TurnAttempts the one that is to blame is known: it goes to quarantine, its caller gets
//     EntityFailed, and the others go on.
//   - A batch whose outcome cannot be committed, because it is too large, is tried again with half of its
//     operations; if it is one operation, that fails and changes nothing.

// EntityCode runs the operations of an entity. It is called again with the same operations if its outcome could
// not be committed. [ErrUnavailable] says that it did not run, and does not count as an attempt.
type EntityCode func(ctx context.Context, b *EntityBatch) (*EntityOutcome, error)

// EntityBatch are operations of an entity, in the order in which they are to run.
type EntityBatch struct {
	// Ref is the tenant and the ID of the entity, and Name and Key are those in the ID.
	Ref  Ref
	Name string
	Key  string

	// State is that of the entity, nil if it has none.
	State []byte

	// Now is the store's time at which it was claimed.
	Now time.Time

	Operations []EntityOperation
}

// EntityOperation is an operation that an entity is asked for.
type EntityOperation struct {
	Name  string
	Input []byte

	// Request is an ID that no other operation has.
	Request string

	// Call is true if the result goes back to an instance, From. It is false for a signal; then From is set
	// if an instance sent it.
	Call bool
	From Ref
}

// EntityOutcome is what came of a batch.
type EntityOutcome struct {
	// State is that of the entity from now on; nil deletes it.
	State []byte

	// Results has one for each operation, in order. If there are fewer, the other operations did not run and
	// are delivered again.
	Results []EntityResult

	// Signals and Starts are what the operations sent. A start whose ID exists does nothing; its tenant is
	// that of the entity.
	Signals []EntitySignal
	Starts  []Start
}

// EntityResult is the result of an operation, or its failure.
type EntityResult struct {
	Data    []byte
	Failure *history.Failure
}

func (r EntityResult) failed() bool { return r.Failure != nil }

// EntitySignal is a signal to an entity of the same tenant. At is when it is delivered; the zero time means
// at once.
type EntitySignal struct {
	To    string
	Name  string
	Input []byte
	At    time.Time
}

// EntityID returns the ID of an entity: its name, in lower case, and its key.
func EntityID(name, key string) string { return "@" + strings.ToLower(name) + "@" + key }

// ParseEntityID returns the name, in lower case, and the key of an entity's ID. The error matches
// [ErrInvalid].
func ParseEntityID(id string) (name, key string, err error) {
	rest, ok := strings.CutPrefix(id, "@")
	name, key, found := strings.Cut(rest, "@")
	if !ok || !found {
		return "", "", fmt.Errorf("abide: the ID of an entity, %q, is not of the form @name@key: %w", id, ErrInvalid)
	}
	if err := checkName("entity", name); err != nil {
		return "", "", err
	}
	if err := checkRef(Ref{ID: id}); err != nil {
		return "", "", err
	}
	return strings.ToLower(name), key, nil
}

// entityRef returns the reference of an entity with its name in lower case.
func entityRef(tenant, id string) (Ref, error) {
	name, key, err := ParseEntityID(id)
	if err == nil {
		err = checkRef(Ref{Tenant: tenant, ID: id})
	}
	return Ref{Tenant: tenant, ID: EntityID(name, key)}, err
}

// entity is the key of an entity's messages.
func (r Ref) entity() store.Key {
	return store.Key{Queue: QueueEntities, Tenant: r.Tenant, Name: r.ID}
}

// entityRecord is the key of an entity's record.
func (r Ref) entityRecord() store.RecordKey {
	return store.RecordKey{Kind: kindEntity, Tenant: r.Tenant, ID: r.ID}
}

// entityMessage returns a message to an entity.
func (r Ref) entityMessage(id string, m *entityMessage, at time.Time) store.Message {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.ID, "@"), "@")
	return store.Message{Key: r.entity(), ID: id, Route: name, VisibleAt: at, Body: m.encode()}
}
