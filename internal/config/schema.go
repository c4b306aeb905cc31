package config

import (
	"reflect"
	"strings"
	"time"
)

// leaf is a key that holds a value, and no other keys that flags or the environment could
// name.
type leaf struct {
	path  string
	index []int // of the field
	field reflect.StructField
}

var (
	secretType   = reflect.TypeFor[Secret]()
	placeType    = reflect.TypeFor[Place]()
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

// schema are all leaves, in the order of the struct.
var schema = leavesOf(reflect.TypeFor[Config](), "", nil)

func leavesOf(t reflect.Type, prefix string, index []int) []leaf {
	var all []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		path := prefix + f.Tag.Get("key")
		at := append(append([]int{}, index...), i)
		if isGroup(f.Type) {
			all = append(all, leavesOf(f.Type, path+".", at)...)
			continue
		}
		all = append(all, leaf{path: path, index: at, field: f})
	}
	return all
}

// isGroup reports whether a type holds keys, and not a value.
func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != secretType && t != placeType
}

// isSecret reports whether the value of a leaf may be secret as a whole.
func (l *leaf) isSecret() bool { return l.field.Type == secretType || l.field.Type == placeType }

// isText reports whether a value can be written in one line, so that a flag or a variable
// can hold it.
func (l *leaf) isText() bool {
	t := l.field.Type
	return t.Kind() != reflect.Map && (t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.String)
}

// variable is the name of the environment variable of a key.
func (l *leaf) variable() string {
	return "ABIDE_" + strings.ToUpper(strings.ReplaceAll(l.path, ".", "_"))
}

// leafOf returns the leaf of a path, or nil.
func leafOf(path string) *leaf {
	for i := range schema {
		if schema[i].path == path {
			return &schema[i]
		}
	}
	return nil
}

// Keys returns the names of all keys that a flag or a variable can set, in the order of
// the example.
func Keys() []string {
	var all []string
	for i := range schema {
		if schema[i].isText() {
			all = append(all, schema[i].path)
		}
	}
	return all
}
