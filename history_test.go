package abide

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
)

// TestHistoryJSON shows what people see. The file is a format: old ones must be read for
// as long as there are any.
func TestHistoryJSON(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	events := []history.Event{
		{ID: 1, Kind: history.TurnStarted, At: noon},
		{
			ID: 2, Kind: history.ExecutionStarted, Name: "order", Data: []byte(`{"id":"1"}`),
			Start: &history.Start{Version: "2", Execution: 1, Parent: "cart-1", ParentExecution: 2, ParentEvent: 9, Seed: math.MaxUint64},
		},
		{ID: 3, Kind: history.ActivityScheduled, Name: "charge", Data: []byte{0, 1}, Activity: &history.Activity{
			StartToClose: 30 * time.Second, ScheduleToClose: time.Hour, Heartbeat: 5 * time.Second,
			MaxAttempts: 5, Backoff: 100 * time.Millisecond, BackoffMax: time.Minute, Factor: 1.5, Final: []string{"declined"},
		}},
		{ID: 4, Kind: history.ChildStarted, Name: "ship", Target: "ship-1", Child: &history.Child{Version: "1", OnClose: history.AbandonChild}},
		{ID: 5, Kind: history.TimerCreated, Name: "reminder", At: noon.Add(time.Hour)},
		{ID: 6, Kind: history.TurnStarted, At: noon.Add(time.Minute)},
		{ID: 7, Kind: history.ActivityFailed, Ref: 3, Failure: &history.Failure{
			Type: "declined", Message: "card declined", Final: true, Attempt: 2, Details: []byte(`{"code":51}`),
			Cause: &history.Failure{Message: "code 51"},
		}},
		{ID: 8, Kind: history.ExecutionFailed, Failure: &history.Failure{Message: "bytes: \xff"}},
	}
	h := History{Ref: Ref{ID: "order-1"}, Orchestration: "order", Version: "2", Execution: 1, Events: events}
	got, err := json.MarshalIndent(h, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	check.Golden(t, "testdata/history.json", string(got)+"\n")
	var back History
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	read, err := back.events()
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if !reflect.DeepEqual(read[i], events[i]) {
			t.Errorf("read as\n%+v\nwant\n%+v", read[i], events[i])
		}
	}
}

// TestEventsMustBeInOrder: an edited history must have consecutive IDs.
func TestEventsMustBeInOrder(t *testing.T) {
	t.Parallel()
	h := History{Ref: Ref{ID: "x"}, Events: []history.Event{{ID: 1, Kind: history.TurnYielded}, {ID: 3, Kind: history.TurnYielded}}}
	if _, err := h.events(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "event 2: its ID is 3, and it is number 2") {
		t.Errorf("got %v", err)
	}
}
