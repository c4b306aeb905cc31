package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/server/api"
)

// withheld are the fields of requests that are not in the audit log: payloads.
var withheld = []string{"input", "data", "payload", "body"}

// detailItems is how many elements of a list are in the audit log.
const detailItems = 5

// detail returns what a request asks for, as JSON: its query and its body, without payloads
// and with the first few elements of each list. It is empty if there is nothing to say.
func detail(query string, in any) string {
	all := map[string]any{}
	values, _ := url.ParseQuery(query) // what cannot be read is refused elsewhere
	for name, values := range values {
		all[name] = strings.Join(values, ",")
	}
	if v := reflect.Indirect(reflect.ValueOf(in)); v.Kind() == reflect.Struct {
		if body := v.FieldByName("Body"); body.IsValid() {
			if fields, ok := plain(body).(map[string]any); ok {
				maps.Copy(all, fields)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Sprintf("%q", err.Error()) // not reached: there are only texts, numbers and lists
	}
	return string(text)
}

// plain returns a value for the audit log, or nil if there is nothing to say.
func plain(v reflect.Value) any {
	if v.IsZero() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case fmt.Stringer:
		return x.String()
	case api.Duration:
		return time.Duration(x).String()
	case json.RawMessage, []byte:
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if said := v.Elem(); said.IsZero() && said.Kind() != reflect.Struct { // false or 0, and not left out
			return said.Interface()
		}
		return plain(v.Elem())
	case reflect.Interface:
		return plain(v.Elem())
	case reflect.Struct:
		return fields(v)
	case reflect.Slice, reflect.Array:
		var list []any
		for i := range min(v.Len(), detailItems) {
			list = append(list, plain(v.Index(i)))
		}
		if more := v.Len() - detailItems; more > 0 {
			list = append(list, fmt.Sprintf("and %d more", more))
		}
		return list
	case reflect.Map:
		all := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			all[it.Key().String()] = plain(it.Value())
		}
		return all
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return v.Interface()
	default:
		return nil
	}
}

// fields returns the fields of a struct by their names in JSON.
func fields(v reflect.Value) any {
	all := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || slices.Contains(withheld, name) {
			continue
		}
		value := plain(v.Field(i))
		if inner, ok := value.(map[string]any); ok && f.Anonymous {
			maps.Copy(all, inner)
		} else if value != nil && name != "" {
			all[name] = value
		}
	}
	return all
}

// status returns the status that a handler has set, or 0.
func status(out any) int {
	if v := reflect.Indirect(reflect.ValueOf(out)); v.Kind() == reflect.Struct {
		if s := v.FieldByName("Status"); s.IsValid() && s.Kind() == reflect.Int {
			return int(s.Int())
		}
	}
	return 0
}

// madeBy returns the ID of what an answer is about, or of the first few of many.
func madeBy(out any) string {
	v := reflect.Indirect(reflect.ValueOf(out))
	if v.Kind() != reflect.Struct {
		return ""
	}
	body := v.FieldByName("Body")
	if !body.IsValid() || body.Kind() != reflect.Struct {
		return ""
	}
	if id := body.FieldByName("ID"); id.IsValid() && id.Kind() == reflect.String {
		return id.String()
	}
	var ids []string
	for _, list := range body.Fields() {
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for j := range min(list.Len(), detailItems) {
			if id := list.Index(j).FieldByName("ID"); id.IsValid() && id.Kind() == reflect.String {
				ids = append(ids, id.String())
			}
		}
	}
	return strings.Join(ids, ",")
}

// withMade adds the ID of what was made to a detail.
func withMade(text, id string) string {
	made, err := json.Marshal(id)
	if err != nil {
		return text // not reached: it is a text
	}
	if text == "" {
		return `{"made":` + string(made) + "}"
	}
	return `{"made":` + string(made) + "," + text[1:]
}
