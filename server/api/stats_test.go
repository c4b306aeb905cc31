package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestStatsGoOverTheWire: each field arrives.
func TestStatsGoOverTheWire(t *testing.T) {
	t.Parallel()
	want := store.Stats{
		Routes: []store.RouteStats{{Queue: "q", Route: "r", Pending: 3, Ready: 2, Leased: 1, Oldest: time.UnixMilli(5).UTC()}},
		Rest:   store.RestStats{Routes: 4, Pending: 5}, Leases: 6, Waiting: 7, Bytes: 8, Now: time.UnixMilli(9).UTC(), ClockLead: 2500 * time.Millisecond,
	}
	all := reflect.ValueOf(want)
	for i := range all.NumField() {
		if all.Field(i).IsZero() {
			t.Errorf("field %s is not tested", all.Type().Field(i).Name)
		}
	}
	data, err := json.Marshal(FromStats(&want))
	if err != nil {
		t.Fatal(err)
	}
	var got Stats
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Stats(), want) {
		t.Errorf("got %+v, want %+v", got.Stats(), want)
	}
}
