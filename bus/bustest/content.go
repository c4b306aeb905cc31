package bustest

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/abidehq/abide/bus"
)

func everyField(t *testing.T, sink Sink) {
	full := envelope(1)
	bare := envelope(2)
	bare.CorrelationID = ""
	last := envelope(3)
	last.TimestampMs = 253_402_300_799_999 // the end of the year 9999
	list := []bus.Envelope{full, bare, last}
	publish(t, sink, list...)
	wantReceived(t, sink, list)
}

// anyName: carriers make subjects, keys and headers of names, in which some
// characters mean something.
func anyName(t *testing.T, sink Sink) {
	var list []bus.Envelope
	for i, name := range []string{
		"a.b.c", ".", "..", "*", ">", "a.*.>", "%41", "%", "A", "a b", " a ", "a/b", "{a}", "{}", "a:b", "$JS", "_INBOX.a",
		`"quoted"`, `\`, "'", "<&>", "a,b;c=d", "münchen", "日本", "👩‍🚀", "e\u0301", "\u2028",
		strings.Repeat("ü", bus.MaxType/2),
	} {
		e := envelope(i)
		e.Type, e.TenantID, e.CorrelationID = name, name, name
		list = append(list, e)
	}
	long := envelope(len(list))
	long.TenantID = strings.Repeat("*", bus.MaxTenant)
	long.CorrelationID = strings.Repeat("👩", bus.MaxCorrelation/4)
	list = append(list, long)
	publish(t, sink, list...)
	wantReceived(t, sink, list)
}

func payloads(t *testing.T, sink Sink) {
	var list []bus.Envelope
	for i, payload := range []string{
		"null", "true", "0", `""`, "{}", "[]",
		"12345678901234567890123456789012345678901234567890",
		`{"big":9007199254740993,"small":1e-400,"large":1E+400,"exact":1.10,"minus":-0}`,
		`{"text":"münchen 日本 👩‍🚀","escaped":"\u00e9\ud83d\ude00\/\u003c","markup":"<a href='x'>&amp;</a>","line":"` + "\u2028" + `"}`,
		"{ \"b\" : 1 ,\n\t\"a\" : [ 1 , 2 ] , \"b\" : 2 }",
		strings.Repeat(`{"a":[`, 500) + "1" + strings.Repeat("]}", 500),
		strconv.Quote(strings.Repeat("x", 256<<10-2)),
	} {
		e := envelope(i)
		e.Payload = json.RawMessage(payload)
		list = append(list, e)
	}
	publish(t, sink, list...)
	wantReceived(t, sink, list)
}

// tooLarge: if one that can never be accepted took its neighbours with it, they would
// never be accepted either.
func tooLarge(t *testing.T, sink Sink) {
	list := envelopes(0, 5)
	if sink.TooLarge == 0 {
		publish(t, sink, list...)
		wantReceived(t, sink, list)
		return
	}
	list[2].Payload = json.RawMessage(strconv.Quote(strings.Repeat("x", sink.TooLarge-2)))
	err := sink.Bus.Publish(t.Context(), list)
	if _, ok := errors.AsType[bus.Errors](err); !ok {
		t.Fatalf("Publish: %v, want one outcome for each envelope", err)
	}
	for i, err := range bus.Outcomes(err, len(list)) {
		switch {
		case i == 2 && !errors.Is(err, bus.ErrPermanent):
			t.Errorf("the one that is too large: %v, want one that is permanent", err)
		case i != 2 && err != nil:
			t.Errorf("neighbour %d: %v", i, err)
		}
	}
	wantReceived(t, sink, append(list[:2:2], list[3:]...))
}
