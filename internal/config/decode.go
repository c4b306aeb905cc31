package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode turns what the layers say into values.
func (l *loader) decode() {
	config := reflect.ValueOf(&l.loaded.Config).Elem()
	for i := range schema {
		at := &schema[i]
		if s, set := l.merged[at.path]; set {
			l.value(at.path, s, at.field.Tag, config.FieldByIndex(at.index))
		}
	}
}

// value decodes what is said about one key.
func (l *loader) value(path string, s setting, tag reflect.StructTag, v reflect.Value) {
	l.loaded.where[path] = s.where(s.node)
	switch {
	case isGroup(v.Type()):
		l.group(path, s, v)
	case v.Kind() == reflect.Slice:
		l.list(path, s, tag, v)
	case v.Kind() == reflect.Map:
		l.table(path, s, tag, v)
	case s.node.Kind != yaml.ScalarNode:
		l.mistake(path, "", s.where(s.node), "it must be one value, and no list or group of keys")
	default:
		if err := scalar(s.node.Value, tag, v); err != nil {
			value := s.node.Value
			if v.Type() == secretType || v.Type() == placeType {
				value = ""
			}
			l.mistake(path, value, s.where(s.node), "%v", err)
		}
	}
}

// list decodes a list.
func (l *loader) list(path string, s setting, tag reflect.StructTag, v reflect.Value) {
	if s.node.Kind != yaml.SequenceNode {
		l.mistake(path, "", s.where(s.node), "it must be a list")
		return
	}
	all := reflect.MakeSlice(v.Type(), len(s.node.Content), len(s.node.Content))
	for i, n := range s.node.Content {
		l.value(fmt.Sprintf("%s[%d]", path, i), setting{resolve(n), s.where}, tag, all.Index(i))
	}
	v.Set(all)
}

// table decodes a mapping whose keys are free.
func (l *loader) table(path string, s setting, tag reflect.StructTag, v reflect.Value) {
	if s.node.Kind != yaml.MappingNode {
		l.mistake(path, "", s.where(s.node), "it must hold names and values")
		return
	}
	all := reflect.MakeMap(v.Type())
	for _, e := range l.entries(s.node, path+".", s.where) {
		value := reflect.New(v.Type().Elem()).Elem()
		l.value(path+"."+e.key.Value, setting{e.value, s.where}, tag, value)
		all.SetMapIndex(reflect.ValueOf(e.key.Value), value)
	}
	v.Set(all)
}

// group decodes an element of a list that holds keys, with those that are not there.
func (l *loader) group(path string, s setting, v reflect.Value) {
	said := map[string]*yaml.Node{}
	switch {
	case isNull(s.node):
	case s.node.Kind != yaml.MappingNode:
		l.mistake(path, "", s.where(s.node), "it must hold keys: %s", strings.Join(keysOf(v.Type()), ", "))
		return
	default:
		for _, e := range l.entries(s.node, path+".", s.where) {
			if _, known := fieldOf(v.Type(), e.key.Value); !known {
				l.mistake(path+"."+e.key.Value, "", s.where(e.key), "there is no such key%s", nearest(e.key.Value, keysOf(v.Type())))
			} else if !isNull(e.value) {
				said[e.key.Value] = e.value
			}
		}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("key")
		below := path + "." + key
		if node, ok := said[key]; ok {
			l.value(below, setting{node, s.where}, f.Tag, v.Field(i))
		} else if isGroup(f.Type) {
			l.value(below, setting{&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: s.node.Line}, s.where}, f.Tag, v.Field(i))
		} else if text, has := f.Tag.Lookup("default"); has {
			l.loaded.where[below] = fromDefault
			_ = scalar(text, f.Tag, v.Field(i)) // a test decodes all defaults
		}
	}
	l.belongs(path, s, said, v)
}

// belongs finds keys that are missing, and those that do not go with the kind.
func (l *loader) belongs(path string, s setting, said map[string]*yaml.Node, v reflect.Value) {
	kind := said["kind"]
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("key")
		node, has := said[key]
		if !has && f.Tag.Get("required") != "" {
			why := "it is missing"
			if allowed := f.Tag.Get("allowed"); allowed != "" {
				why += "; allowed are " + listed(allowed)
			}
			l.mistake(path+"."+key, "", s.where(s.node), "%s", why)
		}
		kinds := strings.Fields(f.Tag.Get("for"))
		if len(kinds) == 0 || kind == nil {
			continue
		}
		switch needed := slices.Contains(kinds, kind.Value+"!"); {
		case needed && !has:
			l.mistake(path+"."+key, "", s.where(s.node), "it is missing; the kind %s needs it", kind.Value)
		case has && !needed && !slices.Contains(kinds, kind.Value):
			l.mistake(path+"."+key, "", s.where(node), "the kind %s has no such key", kind.Value)
		}
	}
}

// listed returns words as people list them.
func listed(words string) string { return strings.Join(strings.Fields(words), ", ") }
