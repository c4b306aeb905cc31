package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/server/api"
)

// TestPayloads come back as they were, whatever they are.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`1`, `null`, `"<x>"`, `{"a":[1.50,true]}`, `{ "a" : 1 }`, `{"$base64":"AAA="}`, "\x00\xff", "not json", " ", `"\u003c"`} {
		wire, err := json.Marshal(api.FromPayload([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := api.Payload(wire)
		if err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q became %s and then %q, %v", text, wire, got, err)
		}
	}
	if api.FromPayload(nil) != nil || api.FromPayload([]byte{}) != nil {
		t.Error("nothing is something")
	}
	if got, err := api.Payload(nil); got != nil || err != nil {
		t.Errorf("nothing is %q, %v", got, err)
	}
	if _, err := api.Payload(json.RawMessage(`{"$base64":"!"}`)); !errors.Is(err, abide.ErrInvalid) {
		t.Errorf("what is not base64: %v", err)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a", "a:b", "%", "%3A", "ä :%25"} {
		for _, value := range []string{"", "v", "v:w%3A"} {
			n, v, err := api.Tag(api.FromTag(name, value))
			if err != nil || n != name || v != value {
				t.Errorf("%q, %q became %q, %q, %v", name, value, n, v, err)
			}
		}
	}
	for _, text := range []string{"", "a", "%zz:1"} {
		if _, _, err := api.Tag(text); !errors.Is(err, abide.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTypedTags: people write tags with = or with :, and what could mean either is refused.
func TestTypedTags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"customer=7": {"customer", "7"}, "customer:7": {"customer", "7"}, "a=b:c": {"a", "b:c"}, "a=b=c": {"a", "b=c"},
		"a%3Ab=c": {"a:b", "c"}, "a:b:c": {"a", "b:c"}, "a=": {"a", ""},
	} {
		if name, value, err := api.ParseTyped(text); err != nil || name != want[0] || value != want[1] {
			t.Errorf("%q is %q, %q, %v", text, name, value, err)
		}
	}
	for text, want := range map[string]string{
		"": "name=value", "customer": "name=value", "=7": "no name", ":7": "no name", "%zz=1": "name=value",
		"a:b=c": `"a:b=c" has both : and =; write a%3Ab=c if the : is part of the name, and a=b=c if the = is part of the value`,
	} {
		if _, _, err := api.ParseTyped(text); !errors.Is(err, abide.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, name := range []string{"a", "a:b", "a=b", "%3A"} {
		if n, v, err := api.ParseTyped(api.TypedTag(name, "v:w=x")); err != nil || n != name || v != "v:w=x" {
			t.Errorf("%q became %q, %q, %v", name, n, v, err)
		}
	}
}

// TestPrepareEvent: an event that is known by its name alone has no value without data, and the data
// as it is otherwise.
func TestPrepareEvent(t *testing.T) {
	t.Parallel()
	c := abide.ClientOver(nil, abide.JSON)
	for data, want := range map[string]string{"": "", "null": "null", `{"a":1}`: `{"a":1}`} {
		r, err := api.PrepareEvent(c, "i", "go", json.RawMessage(data), abide.Tenant("acme"), abide.IfAwaited())
		if err != nil || string(r.Data) != want || r.Event != "go" || r.Ref != (abide.Ref{Tenant: "acme", ID: "i"}) || !r.IfAwaited {
			t.Errorf("%q: %+v, %v", data, r, err)
		}
	}
}

func TestFailuresKeepTheirChain(t *testing.T) {
	t.Parallel()
	declined := abide.NewError("declined", "the card was declined")
	f := &history.Failure{Type: "outer", Message: "no luck", Cause: abide.FailureOf(abide.Final(declined))}
	err := api.FromError(abide.ErrorOf(f)).Err()
	if !errors.Is(err, declined) || !errors.Is(err, abide.NewError("outer", "")) || err.Error() != "no luck" {
		t.Errorf("%v", err)
	}
	if back := abide.FailureOf(err); back.Cause == nil || !back.Cause.Final || fmt.Sprint(*back.Cause) != fmt.Sprint(*f.Cause) {
		t.Errorf("the cause is %+v, want %+v", back.Cause, f.Cause)
	}
	if api.FromError(nil) != nil || (*api.Failure)(nil).Err() != nil {
		t.Error("no error is one")
	}
}
