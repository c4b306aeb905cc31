package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// MaxSize is the largest schema, in bytes of its JSON. The schema of a larger type accepts any
// JSON.
const MaxSize = 32 << 10

// Schema describes a JSON value. The zero value accepts any. A schema is not changed once it was
// made.
type Schema struct {
	// Title is the name of the Go type, and Description says what is not in the type.
	Title       string
	Description string

	// Type is object, array, string, integer, number, boolean, or empty for any value. Null
	// says that null is accepted too.
	Type string
	Null bool

	// Format is date-time for a time, and byte for base64.
	Format string

	// Minimum and Maximum bound an integer; both are zero if it has no bounds.
	Minimum int64
	Maximum uint64

	// Properties are the fields of an object, in the order of the type. Values describes those
	// of a map, whose keys are any.
	Properties []Property
	Values     *Schema

	// Items describes the items of an array.
	Items *Schema

	// Ref is the name of one of the Defs of the outermost schema: a type that contains itself.
	Ref  string
	Defs map[string]*Schema
}

// Property is a field of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// document is a schema as JSON Schema.
type document struct {
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Type        json.RawMessage `json:"type,omitempty"`
	Format      string          `json:"format,omitempty"`
	Minimum     *int64          `json:"minimum,omitempty"`
	Maximum     *uint64         `json:"maximum,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
	Additional  json.RawMessage `json:"additionalProperties,omitempty"`
	Items       *Schema         `json:"items,omitempty"`
	Ref         string          `json:"$ref,omitempty"`

	Defs map[string]*Schema `json:"$defs,omitempty"`
}

const refPrefix = "#/$defs/"

// MarshalJSON returns the schema as JSON Schema.
func (s *Schema) MarshalJSON() ([]byte, error) {
	d := document{Title: s.Title, Description: s.Description, Format: s.Format, Items: s.Items, Defs: s.Defs}
	if s.Ref != "" {
		d.Ref = refPrefix + s.Ref
	}
	switch {
	case s.Type != "" && s.Null:
		d.Type, _ = json.Marshal([]string{s.Type, "null"})
	case s.Type != "":
		d.Type, _ = json.Marshal(s.Type)
	}
	if s.Minimum != 0 || s.Maximum != 0 {
		d.Minimum, d.Maximum = &s.Minimum, &s.Maximum
	}
	switch {
	case s.Type == "object" && s.Values != nil:
		values, err := json.Marshal(s.Values)
		if err != nil {
			return nil, err
		}
		d.Additional = values
	case s.Type == "object":
		d.Additional = json.RawMessage("false")
		var b bytes.Buffer
		for i, p := range s.Properties { // a map would lose their order
			name, _ := json.Marshal(p.Name)
			value, err := json.Marshal(p.Schema)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "%s%s:%s", []string{",", "{"}[min(1, max(0, 1-i))], name, value)
		}
		if b.Len() > 0 {
			d.Properties = append(b.Bytes(), '}')
		}
	}
	return json.Marshal(d)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Schema) UnmarshalJSON(data []byte) error {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*s = Schema{Title: d.Title, Description: d.Description, Format: d.Format, Items: d.Items, Defs: d.Defs, Ref: strings.TrimPrefix(d.Ref, refPrefix)}
	if len(d.Type) > 0 {
		var types []string
		if json.Unmarshal(d.Type, &s.Type) != nil {
			if err := json.Unmarshal(d.Type, &types); err != nil || len(types) != 2 || types[1] != "null" {
				return fmt.Errorf("schema: type %s is not known", d.Type)
			}
			s.Type, s.Null = types[0], true
		}
	}
	if d.Minimum != nil && d.Maximum != nil {
		s.Minimum, s.Maximum = *d.Minimum, *d.Maximum
	}
	if len(d.Additional) > 0 && !bytes.Equal(d.Additional, []byte("false")) {
		s.Values = &Schema{}
		if err := json.Unmarshal(d.Additional, s.Values); err != nil {
			return err
		}
	}
	return s.parseProperties(d.Properties)
}

// parseProperties reads the properties, in their order.
func (s *Schema) parseProperties(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		p := Property{Name: fmt.Sprint(name), Schema: &Schema{}}
		if err := d.Decode(p.Schema); err != nil {
			return err
		}
		s.Properties = append(s.Properties, p)
	}
	return nil
}

// Parse reads a schema that MarshalJSON wrote.
func Parse(data []byte) (*Schema, error) {
	var s Schema
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("schema: parse: %w", err)
	}
	return &s, nil
}

// JSON returns the schema as JSON Schema.
func (s *Schema) JSON() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		return []byte("{}") // no schema of a Go type
	}
	return data
}
