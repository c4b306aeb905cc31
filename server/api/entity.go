package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// Entity is a durable object with a state.
type Entity struct {
	Tenant     string          `json:"tenant"`
	ID         string          `json:"id" doc:"The ID of the entity, as @name@key."`
	Name       string          `json:"name"`
	Key        string          `json:"key"`
	State      json.RawMessage `json:"state,omitempty" doc:"The state as its codec wrote it: JSON, or {\"$base64\": \"…\"}. Not there if it has none and is only locked."`
	ModifiedAt time.Time       `json:"modified_at" doc:"When an operation ran last."`
	LockedBy   string          `json:"locked_by,omitempty" doc:"The ID of the instance that has locked it."`
	Backlog    int             `json:"backlog" doc:"How many operations and requests for its lock wait until it is unlocked."`
	Waiting    []EntityWaiting `json:"waiting,omitempty" doc:"The first 100 of them."`
}

// EntityWaiting is an operation, or a request for the lock, that waits until an entity is unlocked.
type EntityWaiting struct {
	Kind      string `json:"kind" enum:"EntityCalled,EntitySignaled,EntityLockRequested"`
	Operation string `json:"operation,omitempty"`
	Instance  string `json:"instance,omitempty" doc:"The ID of the instance that sent it."`
}

// EntityList is a page of entities.
type EntityList struct {
	Entities      []Entity `json:"entities"`
	NextPageToken string   `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// NewSignal is a request to send an operation to an entity.
type NewSignal struct {
	Operation string          `json:"operation" minLength:"1" doc:"The name of the operation."`
	Input     json.RawMessage `json:"input,omitempty" doc:"Its input: any JSON, or {\"$base64\": \"…\"} for bytes."`
	ID        string          `json:"id,omitempty" doc:"A signal that is sent again with the same ID is dropped, as long as it is among the last that the entity has received."`
	At        time.Time       `json:"at,omitzero" doc:"When it is delivered; at once if not given."`
}

// FromEntity returns an entity for the wire.
func FromEntity(e *abide.EntityInfo) Entity {
	id, _ := abide.ParseEntityID(e.Ref.ID) // one that is stored has a valid one
	out := Entity{
		Tenant: e.Ref.Tenant, ID: e.Ref.ID, Name: id.Name, Key: id.Key, State: FromPayload(e.State), ModifiedAt: e.ModifiedAt,
		LockedBy: e.LockedBy, Backlog: e.Backlog,
	}
	for _, w := range e.Waiting {
		out.Waiting = append(out.Waiting, EntityWaiting{Kind: w.Kind.String(), Operation: w.Operation, Instance: w.From})
	}
	return out
}

// Entity is the inverse of [FromEntity].
func (e *Entity) Entity() (abide.EntityInfo, error) {
	state, err := Payload(e.State)
	if err != nil {
		return abide.EntityInfo{}, fmt.Errorf("state of entity %q: %w", e.ID, err)
	}
	out := abide.EntityInfo{
		Ref: abide.Ref{Tenant: e.Tenant, ID: e.ID}, State: state, ModifiedAt: e.ModifiedAt, LockedBy: e.LockedBy, Backlog: e.Backlog,
	}
	for _, w := range e.Waiting {
		var kind history.Kind
		if err := kind.UnmarshalText([]byte(w.Kind)); err != nil {
			return abide.EntityInfo{}, fmt.Errorf("entity %q: %w", e.ID, err)
		}
		out.Waiting = append(out.Waiting, abide.EntityWaiting{Kind: kind, Operation: w.Operation, From: w.Instance})
	}
	return out, nil
}
