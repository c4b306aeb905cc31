package target

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/abidehq/abide/action"
)

// Input is what an orchestration gets, or what comes with an event, if the configuration
// asks for more than the payload. It is the same for each attempt.
type Input struct {
	// Action, Slug, Schedule and RunAt are those of the [action.Action]: its ID, what it
	// is for, the schedule that made it and the time of the schedule that it stands for.
	Action   string    `json:"action"`
	Slug     string    `json:"slug"`
	Schedule string    `json:"schedule,omitempty"`
	RunAt    time.Time `json:"runAt,omitzero"`

	// Payload is that of a scheduled action.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Header and Body are those of a webhook, byte for byte as they were received.
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
}

// raw returns the input as it came.
func raw(r *action.Run) []byte {
	if r.Action.Trigger.Kind == action.Webhook {
		return r.Body
	}
	return r.Action.Payload
}

// asJSON returns the input as JSON: the input itself, or with all that is known of it.
func asJSON(r *action.Run, all bool) (json.RawMessage, error) {
	if all {
		return json.Marshal(Input{
			Action: r.Action.ID, Slug: r.Action.Slug, Schedule: r.Action.Schedule, RunAt: r.Action.RunAt,
			Payload: r.Action.Payload, Header: r.Action.Trigger.Header, Body: r.Body,
		})
	}
	data := raw(r)
	switch {
	case len(data) == 0:
		return json.RawMessage("null"), nil
	case !json.Valid(data):
		what := "the payload"
		if r.Action.Trigger.Kind == action.Webhook {
			what = "the body of the webhook"
		}
		return nil, fmt.Errorf("%s, of %d bytes, is not JSON: %w", what, len(data), action.ErrInvalid)
	default:
		return data, nil
	}
}
