package history

import "testing"

// TestCorrections: a correction replaces the payload of the event that it refers to, the last of
// several counts, and one of a message changes no event.
func TestCorrections(t *testing.T) {
	t.Parallel()
	events := []Event{
		{ID: 1, Kind: EventReceived, Name: "approved", Data: []byte(`"yes"`)},
		{ID: 2, Kind: EventReceived, Name: "approved", Data: []byte(`"no"`)},
		{ID: 3, Kind: EventReceived, Name: "approved", Data: []byte(`true`)},
		{ID: 4, Kind: PayloadCorrected, Ref: 1, Discarded: true},
		{ID: 5, Kind: PayloadCorrected, Ref: 1, Data: []byte(`true`)},
		{ID: 6, Kind: PayloadCorrected, Ref: 2, Data: []byte(`"no"`), Discarded: true},
		{ID: 7, Kind: PayloadCorrected, Target: "e/1", Data: []byte(`false`)},
	}
	var c Corrections
	for i := range events {
		c.Note(&events[i])
	}
	want := []struct {
		data      string
		discarded bool
	}{{"true", false}, {`"no"`, true}, {"true", false}}
	for i, w := range want {
		e := events[i]
		c.Apply(&e)
		if string(e.Data) != w.data || e.Discarded != w.discarded {
			t.Errorf("event %d is %s, discarded %v; want %s, %v", e.ID, e.Data, e.Discarded, w.data, w.discarded)
		}
	}
}
