package history_test

import (
	"encoding/json"
	"fmt"

	"github.com/abidehq/abide/history"
)

// A history that was saved as JSON can be inspected by the kinds of its events.
func ExampleEvent() {
	saved := `[
		{"id": 1, "kind": "TurnStarted", "at": "2026-03-01T12:00:00Z"},
		{"id": 2, "kind": "ExecutionStarted", "name": "order", "start": {"execution": 1}},
		{"id": 3, "kind": "ActivityScheduled", "name": "charge", "data": {"amount": 12}, "activity": {"max_attempts": 5}},
		{"id": 4, "kind": "TurnStarted", "at": "2026-03-01T12:00:07Z"},
		{"id": 5, "kind": "ActivityCompleted", "ref": 3, "data": "charge-17"}
	]`
	var events []history.Event
	if err := json.Unmarshal([]byte(saved), &events); err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		switch e.Kind {
		case history.ActivityScheduled:
			fmt.Printf("%s is called with %s\n", e.Name, e.Data)
		case history.ActivityCompleted:
			fmt.Printf("%s returns %s\n", events[e.Ref-1].Name, e.Data)
		}
	}
	// Output:
	// charge is called with {"amount":12}
	// charge returns "charge-17"
}
