package abide

import (
	"fmt"

	"github.com/abidehq/abide/history"
)

// History is the history of an execution. Its JSON form is complete: it can be kept in a file and
// replayed against later code, see package abidetest.
type History struct {
	Ref           Ref    `json:"instance"`
	Orchestration string `json:"orchestration"`
	Version       string `json:"version,omitempty"`
	Execution     int    `json:"execution"`

	// Partial is true if the history ends within a turn. That is the case only for an instance
	// that was forked and has not run since.
	Partial bool `json:"partial,omitempty"`

	Events []history.Event `json:"events"`
}

// events returns the events of a history after checks of their IDs and fields, so that replay
// does not fail in a way that is harder to understand.
func (h *History) events() ([]history.Event, error) {
	for i := range h.Events {
		e := &h.Events[i]
		err := e.Validate()
		if err == nil && int(e.ID) != i+1 {
			err = fmt.Errorf("its ID is %d, and it is number %d: %w", e.ID, i+1, ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("abide: history of %v: event %d: %w", h.Ref, i+1, err)
		}
	}
	return h.Events, nil
}
