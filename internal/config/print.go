package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Print returns the configuration as YAML that could be a file, with where each value came
// from, and without secrets.
func (l *Loaded) Print() ([]byte, error) {
	root := l.mapping("", reflect.ValueOf(l.Config))
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("config: print: %w", err)
	}
	return out.Bytes(), nil
}

// mapping returns the keys of a group. At the top, all of them are shown; in an element
// of a list, those that are set.
func (l *Loaded) mapping(prefix string, v reflect.Value) *yaml.Node {
	group := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("key")
		path := prefix + key
		var node *yaml.Node
		switch {
		case isGroup(f.Type):
			node = l.mapping(path+".", v.Field(i))
		case l.where[path] == "" && isEmpty(v.Field(i)):
			continue
		default:
			node = l.shown(path, v.Field(i))
		}
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
		if where := l.where[path]; where != "" && !isGroup(f.Type) {
			if node.Kind == yaml.ScalarNode || len(node.Content) == 0 {
				node.LineComment = where
			} else {
				name.LineComment = where
			}
		}
		if node.Kind == yaml.ScalarNode || len(node.Content) > 0 || l.where[path] != "" {
			group.Content = append(group.Content, name, node)
		}
	}
	return group
}

// shown returns a value as people write it.
func (l *Loaded) shown(path string, v reflect.Value) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode}
	switch value := v.Interface().(type) {
	case fmt.Stringer:
		node.Value = value.String()
		if d, ok := value.(time.Duration); ok {
			node.Value = duration(d)
		}
		node.Style = quoting(node.Value)
		return node
	case string:
		node.Value, node.Style = value, quoting(value)
		return node
	}
	switch v.Kind() {
	case reflect.Slice:
		node.Kind = yaml.SequenceNode
		for i := range v.Len() {
			node.Content = append(node.Content, l.element(fmt.Sprintf("%s[%d]", path, i), v.Index(i)))
		}
	case reflect.Map:
		node.Kind = yaml.MappingNode
		names := v.MapKeys()
		sorted := map[string]reflect.Value{}
		for _, name := range names {
			sorted[name.String()] = v.MapIndex(name)
		}
		for _, name := range slices.Sorted(maps.Keys(sorted)) {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Style: quoting(name)}, l.shown(path+"."+name, sorted[name]))
		}
	default:
		node.Value = fmt.Sprint(v.Interface())
	}
	return node
}

func (l *Loaded) element(path string, v reflect.Value) *yaml.Node {
	if isGroup(v.Type()) {
		return l.mapping(path+".", v)
	}
	return l.shown(path, v)
}

// quoting is for texts that YAML would take for something else.
func quoting(text string) yaml.Style {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return yaml.DoubleQuotedStyle
	}
	if _, ok := v.(string); !ok {
		return yaml.DoubleQuotedStyle
	}
	return 0
}

// duration writes a duration as a file has it.
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return forever
	case d > 0 && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d > 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d > 0 && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return d.String()
	}
}
