// Package schema describes the JSON of Go types, and checks JSON against such a description.
//
// A schema is a subset of JSON Schema (draft 2020-12), so that programs in other languages and
// forms of the page can use it as it is. Two rules tie it to encoding/json, and tests hold them:
//
//   - JSON that [Schema.Check] accepts, json.Unmarshal decodes into the type.
//   - JSON that json.Marshal makes of a value of the type, Check accepts.
//
// Check is stricter than json.Unmarshal, which accepts nearly everything: an unknown field, a null
// where the type has no nil. Both are most often mistakes of a person, and silent ones. A field that
// is missing is accepted: it is the zero value.
//
// # Alternatives
//
// Of the libraries for JSON Schema, those that derive a schema from a Go type follow its documentation
// rather than encoding/json (a required field for each one without omitempty, no promotion of embedded
// structs, no ",string"), and those that validate return errors for programs ("/approved: got string,
// want boolean") rather than for an operator. The rules above need both halves to agree.
package schema
