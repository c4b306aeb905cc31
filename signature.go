package abide

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/schema"
)

// Signature describes an orchestration or an activity that a worker has registered: its input and
// result, and the events that it waits for, as JSON Schema of the Go types. Workers publish it when
// they are opened, and the store keeps it with the build of the program. Starts and events are checked
// against it, see [Unchecked].
type Signature struct {
	// Name is the name of the orchestration or the activity, and Version that of an orchestration.
	Name     string
	Version  string
	Activity bool

	// Build is the build of the program, see [Config.Build], and PublishedAt when a worker of
	// that build has last published it.
	Build       string
	PublishedAt time.Time

	// Input and Result are schemas. They are nil for a program whose codec is not [JSON].
	Input  json.RawMessage
	Result json.RawMessage

	// Events has the schema of each event that the orchestration has waited for, by its name.
	Events map[string]json.RawMessage
}

// ExampleOf returns JSON that fits a schema of a [Signature] or a [Waiting], as a start for a person
// to edit. It returns null if data is not such a schema.
func ExampleOf(data json.RawMessage) json.RawMessage {
	s, err := schema.Parse(data)
	if err != nil {
		return json.RawMessage("null")
	}
	return s.Example()
}

func signatureFrom(s *engine.Signature) Signature {
	out := Signature{Activity: s.Activity, Build: s.Build, PublishedAt: s.At}
	out.Name, out.Version, _ = strings.Cut(s.Route, "@")
	if s.Input != nil {
		out.Input = s.Input.JSON()
	}
	if s.Result != nil {
		out.Result = s.Result.JSON()
	}
	for name, event := range s.Events {
		if out.Events == nil {
			out.Events = map[string]json.RawMessage{}
		}
		out.Events[name] = event.JSON()
	}
	return out
}

// schemaOf returns the schema of a type, or nil if the codec is not JSON.
func schemaOf[T any](c Codec) *schema.Schema {
	if c != JSON {
		return nil
	}
	if isNone[T]() {
		return none
	}
	return schema.Of(reflect.TypeFor[T]())
}

// none is the schema of [None]. It accepts any value, which is ignored.
var none = &schema.Schema{Title: "None", Description: "no value"}
