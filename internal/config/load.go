package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// DefaultFile is read, if it exists, when no other file is named.
const DefaultFile = "abide.yaml"

// envFile names the file.
const envFile = "ABIDE_CONFIG"

// Source is where a configuration comes from.
type Source struct {
	// File is read if it is not empty. Otherwise it is the one that ABIDE_CONFIG names, or
	// [DefaultFile] in the working directory, if there is one.
	File string

	// Flags are those that were given, by key.
	Flags map[string]Flag

	// Environ is the environment, as [os.Environ] returns it.
	Environ []string
}

// Flag is a value from the command line.
type Flag struct {
	Name  string // with its dashes
	Value string
}

// Loaded is a configuration, and where its values came from.
type Loaded struct {
	Config

	// File is the one that was read, or empty. Unnamed says that it is [DefaultFile] of the
	// working directory, which nothing has named.
	File    string
	Unnamed bool

	where map[string]string
}

// Where says where the value of a key came from.
func (l *Loaded) Where(key string) string { return l.where[key] }

// setting is what a layer says about a key.
type setting struct {
	node  *yaml.Node
	where func(*yaml.Node) string
}

// loader reads a configuration, and collects mistakes.
type loader struct {
	src      Source
	env      map[string]string
	merged   layer
	mistakes Mistakes
	loaded   *Loaded
}

// Load reads a configuration. An error is [Mistakes].
func Load(src Source) (*Loaded, error) {
	l := &loader{
		src: src, env: map[string]string{}, merged: layer{},
		loaded: &Loaded{where: map[string]string{}},
	}
	for _, entry := range src.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "ABIDE_") {
			l.env[name] = value
		}
	}
	for _, read := range []func() layer{l.defaults, l.file, l.environment, l.flags} { // later ones win
		maps.Copy(l.merged, read())
	}
	l.decode()
	l.loaded.settle()
	if len(l.mistakes) == 0 {
		l.check()
	}
	if len(l.mistakes) > 0 {
		return l.loaded, l.mistakes
	}
	return l.loaded, nil
}

// layer is the settings of one source, by key.
type layer map[string]setting

// setText sets a key to a value that is a text. A list has commas between its elements.
func (to layer) setText(at *leaf, text, where string) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if at.field.Type.Kind() == reflect.Slice {
		node = &yaml.Node{Kind: yaml.SequenceNode}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: part})
			}
		}
	}
	to[at.path] = setting{node, func(*yaml.Node) string { return where }}
}

func (l *loader) mistake(key, value, where, format string, args ...any) {
	l.mistakes = append(l.mistakes, &Mistake{Key: key, Value: value, Where: where, Why: fmt.Sprintf(format, args...)})
}

// fromDefault is the source of values that are not set.
const fromDefault = "default"

func (l *loader) defaults() layer {
	to := layer{}
	for i := range schema {
		if text, has := schema[i].field.Tag.Lookup("default"); has {
			to.setText(&schema[i], text, fromDefault)
		}
	}
	return to
}

// flags are what the command line says.
func (l *loader) flags() layer {
	to := layer{}
	for path, f := range l.src.Flags {
		at := leafOf(path)
		switch {
		case at == nil:
			l.mistake(path, "", "flag "+f.Name, "there is no such key%s", nearest(path, Keys()))
		case !at.isText():
			l.mistake(path, "", "flag "+f.Name, "only the file can set it")
		case at.field.Type == secretType:
			l.mistake(path, "", "flag "+f.Name, "flags are shown to other users of this machine, by ps for one: set it in the file, or with $%s or $%s_FILE", at.variable(), at.variable())
		default:
			to.setText(at, f.Value, "flag "+f.Name)
		}
	}
	return to
}

// file is what the file says.
func (l *loader) file() layer {
	to := layer{}
	name, asked := l.src.File, "flag --config"
	if name == "" {
		name, asked = l.env[envFile], "$"+envFile
	}
	if name == "" {
		name, asked = DefaultFile, ""
	}
	data, err := os.ReadFile(name)
	if err != nil {
		if asked != "" || !errors.Is(err, fs.ErrNotExist) {
			l.mistake("", name, asked, "the file cannot be read: %v", err)
		}
		return to
	}
	l.loaded.File, l.loaded.Unnamed = name, asked == ""
	root, err := parse(data)
	if err != nil {
		l.mistake("", "", name, "%v", err)
		return to
	}
	if root != nil {
		l.walk(to, root, "", reflect.TypeFor[Config](), func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", name, n.Line) })
	}
	return to
}
