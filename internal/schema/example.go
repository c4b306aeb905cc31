package schema

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Example returns JSON that fits the schema, as a start for people: each field with its zero value,
// indented.
func (s *Schema) Example() []byte {
	var compact, out bytes.Buffer
	e := exampler{defs: s.Defs}
	e.write(&compact, s)
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		return []byte("null")
	}
	return out.Bytes()
}

type exampler struct {
	defs   map[string]*Schema
	within []string
}

func (e *exampler) write(b *bytes.Buffer, s *Schema) {
	if s.Ref != "" {
		if s.Null || slices.Contains(e.within, s.Ref) || e.defs[s.Ref] == nil {
			b.WriteString("null")
			return
		}
		e.within = append(e.within, s.Ref)
		e.write(b, e.defs[s.Ref])
		e.within = e.within[:len(e.within)-1]
		return
	}
	switch s.Type {
	case "boolean":
		b.WriteString("false")
	case "number", "integer":
		b.WriteString("0")
	case "string":
		if s.Format == "date-time" {
			b.WriteString(`"2026-01-01T00:00:00Z"`)
		} else {
			b.WriteString(`""`)
		}
	case "array":
		b.WriteString("[]")
	case "object":
		b.WriteByte('{')
		for i, p := range s.Properties {
			if i > 0 {
				b.WriteByte(',')
			}
			name, _ := json.Marshal(p.Name)
			b.Write(name)
			b.WriteByte(':')
			e.write(b, p.Schema)
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}
