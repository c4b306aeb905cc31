package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Error says where a JSON value does not fit a schema.
type Error struct {
	// Path is the place: fields with dots, items in brackets; empty for the value itself.
	Path string

	// Got is what is there, and Want what is allowed.
	Got  string
	Want string
}

// Error returns the place, what is there and what is allowed.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("it is %s, want %s", e.Got, e.Want)
	}
	return fmt.Sprintf("%s is %s, want %s", e.Path, e.Got, e.Want)
}

// Check returns an [*Error] if JSON does not fit the schema. No data at all fits: it is the zero
// value.
func (s *Schema) Check(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return &Error{Got: fmt.Sprintf("not JSON (%v)", err), Want: s.Want()}
	}
	if d.More() {
		return &Error{Got: "more than one JSON value", Want: s.Want()}
	}
	c := checker{defs: s.Defs}
	return c.check(s, "", v)
}

type checker struct{ defs map[string]*Schema }

func (c *checker) check(s *Schema, path string, v any) error {
	null := s.Null
	if s.Ref != "" {
		if s = c.defs[s.Ref]; s == nil {
			return nil
		}
	}
	if v == nil {
		if null || s.Type == "" {
			return nil
		}
		return &Error{Path: path, Got: "null", Want: s.Want()}
	}
	wrong := &Error{Path: path, Got: describe(v), Want: s.Want()}
	switch s.Type {
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong
		}
	case "number":
		n, ok := v.(json.Number)
		if !ok {
			return wrong
		}
		if _, err := n.Float64(); err != nil {
			return wrong
		}
	case "integer":
		if n, ok := v.(json.Number); !ok || !s.inRange(n.String()) {
			return wrong
		}
	case "string":
		text, ok := v.(string)
		if !ok || !s.fits(text) {
			return wrong
		}
	case "array":
		items, ok := v.([]any)
		if !ok {
			return wrong
		}
		for i, item := range items {
			if err := c.check(s.Items, fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	case "object":
		object, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		return c.object(s, path, object)
	case "":
		if s.Title == "" { // an interface, into which numbers are decoded as float64
			return finite(path, v)
		}
	}
	return nil
}

// finite checks that all numbers of a value are in the range of a float64.
func finite(path string, v any) error {
	switch v := v.(type) {
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return &Error{Path: path, Got: v.String(), Want: "a number up to 1.8e308"}
		}
	case []any:
		for i, item := range v {
			if err := finite(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range sorted(v) {
			if err := finite(join(path, key), v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// object checks the fields of an object, in the order of the schema, so that the error is always the
// same one.
func (c *checker) object(s *Schema, path string, object map[string]any) error {
	for _, key := range sorted(object) {
		of := s.Values
		if of == nil {
			if of = s.property(key); of == nil {
				return &Error{Path: join(path, key), Got: "an unknown field", Want: s.fieldNames()}
			}
		}
		if err := c.check(of, join(path, key), object[key]); err != nil {
			return err
		}
	}
	return nil
}

// property returns the schema of a field. Like encoding/json it prefers the exact name, and accepts
// another case.
func (s *Schema) property(name string) *Schema {
	var folded *Schema
	for _, p := range s.Properties {
		if p.Name == name {
			return p.Schema
		}
		if folded == nil && strings.EqualFold(p.Name, name) {
			folded = p.Schema
		}
	}
	return folded
}

func (s *Schema) fieldNames() string {
	if len(s.Properties) == 0 {
		return "no fields"
	}
	names := make([]string, len(s.Properties))
	for i, p := range s.Properties {
		names[i] = p.Name
	}
	return "one of " + strings.Join(names, ", ")
}

// inRange reports whether a number is an integer that the type can hold.
func (s *Schema) inRange(n string) bool {
	if n == "-0" { // which encoding/json accepts for signed integers only
		return s.Minimum < 0
	}
	if u, err := strconv.ParseUint(n, 10, 64); err == nil {
		return s.Maximum == 0 && s.Minimum == 0 || u <= s.Maximum
	}
	i, err := strconv.ParseInt(n, 10, 64)
	return err == nil && i >= s.Minimum
}

// fits reports whether a text has the format.
func (s *Schema) fits(text string) bool {
	switch s.Format {
	case "date-time":
		var t time.Time
		return t.UnmarshalText([]byte(text)) == nil
	case "byte":
		_, err := base64.StdEncoding.DecodeString(text)
		return err == nil
	default:
		return true
	}
}

// Want returns what the schema accepts, in words.
func (s *Schema) Want() string {
	w := s.want()
	if s.Null && s.Type != "" {
		return w + " or null"
	}
	return w
}

func (s *Schema) want() string {
	switch s.Type {
	case "boolean":
		return "true or false"
	case "number":
		return "a number"
	case "integer":
		switch {
		case s.Description != "":
			return "an integer (" + s.Description + ")"
		case s.Maximum == 0 && s.Minimum == 0, s.Maximum > 1<<53:
			return "an integer"
		}
		return fmt.Sprintf("an integer from %d to %d", s.Minimum, s.Maximum)
	case "string":
		switch s.Format {
		case "date-time":
			return `a time such as "2026-03-01T12:00:00Z"`
		case "byte":
			return "a text in base64"
		case "quoted":
			return "a text " + s.Description
		}
		return "a text in quotes"
	case "array":
		return "a list"
	case "object":
		if s.Values != nil {
			return "an object"
		}
		return "an object with " + strings.TrimPrefix(s.fieldNames(), "one of ")
	default:
		return "JSON"
	}
}

// maxShown is how much of a wrong value an error shows.
const maxShown = 40

// describe returns a value for an error.
func describe(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if len(v) > maxShown {
			cut := maxShown
			for cut > 0 && !utf8.RuneStart(v[cut]) {
				cut--
			}
			v = v[:cut] + "…"
		}
		return strconv.Quote(v)
	default:
		return fmt.Sprint(v)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func sorted(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
