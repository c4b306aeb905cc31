package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parse returns the root of a file, or nil if there is nothing in it.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	root := resolve(document.Content[0])
	switch {
	case isNull(root):
		return nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("it must hold keys and values, such as addr: 127.0.0.1:7171")
	}
	return root, nil
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// entry is a key of a mapping, and its value.
type entry struct{ key, value *yaml.Node }

// entries returns what is in a mapping. A key that is there twice is a mistake: one of
// them would be lost.
func (l *loader) entries(n *yaml.Node, path string, where func(*yaml.Node) string) []entry {
	var all []entry
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			l.mistake(strings.TrimSuffix(path, "."), "", where(key), "a key must be a word")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			l.mistake(path+key.Value, "", where(key), "it is there twice: first in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		all = append(all, entry{key, value})
	}
	return all
}

// walk says what a mapping has for the keys of a struct.
func (l *loader) walk(to layer, n *yaml.Node, prefix string, t reflect.Type, where func(*yaml.Node) string) {
	for _, e := range l.entries(n, prefix, where) {
		path := prefix + e.key.Value
		f, known := fieldOf(t, e.key.Value)
		switch {
		case !known:
			l.mistake(path, "", where(e.key), "there is no such key%s", nearest(e.key.Value, keysOf(t)))
		case isNull(e.value): // nothing is said
		case !isGroup(f.Type):
			to[path] = setting{e.value, where}
		case e.value.Kind != yaml.MappingNode:
			l.mistake(path, "", where(e.value), "it must hold keys: %s", strings.Join(keysOf(f.Type), ", "))
		default:
			l.walk(to, e.value, path+".", f.Type, where)
		}
	}
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if f.Tag.Get("key") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) []string {
	var all []string
	for f := range t.Fields() {
		all = append(all, f.Tag.Get("key"))
	}
	return all
}

// nearest returns a hint at what may have been meant, or all that there is.
func nearest(word string, of []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, candidate := range of {
		if d := distance(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	switch {
	case best != "":
		return "; did you mean " + best + "?"
	case len(of) <= 32:
		return "; known are: " + strings.Join(of, ", ")
	default:
		return "; 'abide config example' shows all"
	}
}

// distance is how many letters differ, must be added or left out.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
