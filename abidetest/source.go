package abidetest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/abidehq/abide"
)

// Source is where histories come from: [Files], [FS] or [Histories].
type Source struct {
	codec abide.Codec
	load  func() ([]recorded, error)
}

// recorded is a history under a name, or why it is none.
type recorded struct {
	abide.History
	name string
	err  error
}

// WithCodec says which codec wrote what is in the histories, if it was not [abide.JSON].
func (s Source) WithCodec(c abide.Codec) Source {
	s.codec = c
	return s
}

// Histories are histories themselves.
func Histories(histories ...abide.History) Source {
	return Source{load: func() ([]recorded, error) {
		list := make([]recorded, len(histories))
		for i, h := range histories {
			list[i] = recorded{History: h, name: strings.TrimSuffix(fileName(&h), ".json")}
		}
		return list, nil
	}}
}

// Files are histories in JSON files: each name is that of a file, of a folder (all files
// in and below it that end in .json), or a pattern of [filepath.Glob].
func Files(names ...string) Source {
	return Source{load: func() ([]recorded, error) {
		var list []recorded
		for _, name := range names {
			files, err := filepath.Glob(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(files) == 0 {
				return nil, fmt.Errorf("%s: there is no such file: record histories with abidetest.RecordAll", name)
			}
			for _, file := range files {
				more, err := filesAt(file)
				if err != nil {
					return nil, err
				}
				list = append(list, more...)
			}
		}
		return list, nil
	}}
}

// filesAt returns the histories of a file or a folder.
func filesAt(file string) ([]recorded, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		list, err := walk(os.DirFS(file))
		for i := range list {
			list[i].name = path.Join(filepath.ToSlash(file), list[i].name)
		}
		return list, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return []recorded{parse(filepath.ToSlash(file), data)}, nil
}

// FS are histories in a file system, such as an embed.FS: all files in it that end in
// .json.
func FS(fsys fs.FS) Source {
	return Source{load: func() ([]recorded, error) { return walk(fsys) }}
}

func walk(fsys fs.FS) ([]recorded, error) {
	var list []recorded
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		list = append(list, parse(name, data))
		return nil
	})
	return list, err
}

func parse(name string, data []byte) recorded {
	r := recorded{name: name}
	if err := json.Unmarshal(data, &r.History); err != nil {
		r.err = fmt.Errorf("this is not a history: %w", err)
	} else if len(r.Events) == 0 || r.Orchestration == "" {
		r.err = fmt.Errorf("this is not a history: it has %d events of orchestration %q", len(r.Events), r.Orchestration)
	}
	return r
}
