package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

var known sync.Map // reflect.Type to *Schema

// Of returns the schema of a Go type. It is the same pointer each time.
func Of(t reflect.Type) *Schema {
	if s, ok := known.Load(t); ok {
		return s.(*Schema)
	}
	b := builder{names: map[reflect.Type]string{}, defs: map[string]*Schema{}}
	s := b.of(t)
	if len(b.defs) > 0 {
		outer := *s
		if def := b.defs[s.Ref]; def != nil {
			outer = *def
			outer.Null = s.Null
		}
		outer.Defs = b.defs
		s = &outer
	}
	if len(s.JSON()) > MaxSize {
		s = &Schema{Title: name(t), Description: "too large to be described"}
	}
	first, _ := known.LoadOrStore(t, s)
	return first.(*Schema)
}

// builder makes the schema of one type.
type builder struct {
	within []reflect.Type          // structs that are being described, outermost first
	names  map[reflect.Type]string // of those that contain themselves
	defs   map[string]*Schema
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType        = reflect.TypeFor[time.Time]()
	durationType    = reflect.TypeFor[time.Duration]()
)

func (b *builder) of(t reflect.Type) *Schema {
	switch {
	case t == timeType:
		return &Schema{Type: "string", Format: "date-time"}
	case t == durationType:
		return &Schema{Title: name(t), Description: "nanoseconds", Type: "integer", Minimum: math.MinInt64, Maximum: math.MaxInt64}
	case t.Kind() == reflect.Pointer:
		return nullable(b.of(t.Elem()))
	case reflect.PointerTo(t).Implements(unmarshaler):
		return &Schema{Title: name(t)}
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return &Schema{Title: name(t), Type: "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := t.Bits() - 1
		return &Schema{Type: "integer", Minimum: -1 << bits, Maximum: 1<<bits - 1}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return &Schema{Type: "integer", Maximum: math.MaxUint64 >> (64 - t.Bits())}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !reflect.PointerTo(t.Elem()).Implements(unmarshaler) && !reflect.PointerTo(t.Elem()).Implements(textUnmarshaler) {
			return &Schema{Type: "string", Format: "byte", Null: true}
		}
		return &Schema{Type: "array", Items: b.of(t.Elem()), Null: true}
	case reflect.Array:
		return &Schema{Type: "array", Items: b.of(t.Elem())}
	case reflect.Map:
		return b.ofMap(t)
	case reflect.Struct:
		return b.ofStruct(t)
	default: // an interface, or what cannot be encoded
		return &Schema{Title: name(t)}
	}
}

// ofMap describes a map. Keys that are no strings have texts that are not checked, so such a map
// is any value.
func (b *builder) ofMap(t reflect.Type) *Schema {
	if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
		return &Schema{Title: name(t)}
	}
	return &Schema{Type: "object", Values: b.of(t.Elem()), Null: true}
}

func (b *builder) ofStruct(t reflect.Type) *Schema {
	if slices.Contains(b.within, t) { // it contains itself
		if b.names[t] == "" {
			b.names[t] = fmt.Sprintf("%s%d", t.Name(), len(b.names)+1)
		}
		return &Schema{Ref: b.names[t]}
	}
	b.within = append(b.within, t)
	s := &Schema{Title: name(t), Type: "object"}
	for _, f := range fields(t) {
		of := b.of(f.typ)
		if f.quoted {
			of = &Schema{Type: "string", Description: "in quotes: " + of.Want(), Null: of.Null, Format: "quoted"}
		}
		s.Properties = append(s.Properties, Property{Name: f.name, Schema: of})
	}
	b.within = b.within[:len(b.within)-1]
	if ref := b.names[t]; ref != "" {
		b.defs[ref] = s
		return &Schema{Ref: ref}
	}
	return s
}

// nullable returns a schema that accepts null too.
func nullable(s *Schema) *Schema {
	n := *s
	n.Null = true
	return &n
}

// name returns the name of a type without its package.
func name(t reflect.Type) string {
	n := t.Name()
	if base, _, generic := strings.Cut(n, "["); generic {
		return base
	}
	return n
}

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string
	typ    reflect.Type
	depth  int
	tagged bool
	quoted bool
}

// fields returns the fields of a struct that encoding/json reads, in order. Of several with a name
// the one with the least depth counts, then the one with a tag; if that does not decide, none.
func fields(t reflect.Type) []field {
	var all []field
	collect(t, 0, map[reflect.Type]bool{}, &all)
	best := map[string]field{}
	clash := map[string]bool{}
	for _, f := range all {
		b, there := best[f.name]
		switch {
		case !there, f.depth < b.depth, f.depth == b.depth && f.tagged && !b.tagged:
			best[f.name], clash[f.name] = f, false
		case f.depth == b.depth && f.tagged == b.tagged:
			clash[f.name] = true
		}
	}
	var list []field
	for _, f := range all {
		if b, there := best[f.name]; there && !clash[f.name] && b == f {
			list = append(list, f)
			delete(best, f.name)
		}
	}
	return list
}

func collect(t reflect.Type, depth int, seen map[reflect.Type]bool, all *[]field) {
	if seen[t] {
		return
	}
	seen[t] = true
	defer delete(seen, t)
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		n, options, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && n == "" && inner.Kind() == reflect.Struct {
			if f.IsExported() || f.Type.Kind() != reflect.Pointer {
				collect(inner, depth+1, seen, all)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		out := field{name: n, typ: f.Type, depth: depth, tagged: n != "", quoted: quoted(options, inner)}
		if n == "" {
			out.name = f.Name
		}
		*all = append(*all, out)
	}
}

// quoted reports whether the option ",string" applies to a field.
func quoted(options string, t reflect.Type) bool {
	if !slices.Contains(strings.Split(options, ","), "string") {
		return false
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return false
	}
}
