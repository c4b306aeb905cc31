package sqlitestore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/abidehq/abide/store"
)

// Tags are kept as a JSON object, so that SQL can look into them. JSON cannot hold any
// bytes, and names may have any: tags that are not UTF-8 are kept as two arrays of
// numbers instead, one for names and one for values.

// formatTags returns tags as they are kept; nil if there are none.
func formatTags(tags map[string]string) any {
	if len(tags) == 0 {
		return nil
	}
	var b strings.Builder
	for name, value := range tags {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return formatRawTags(tags)
		}
	}
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(tags)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(name))
		b.WriteByte(':')
		b.Write(quoted(tags[name]))
	}
	b.WriteByte('}')
	return b.String()
}

func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	return b
}

// rawTags are tags that JSON cannot hold as text: base64 keeps them.
type rawTags struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

func formatRawTags(tags map[string]string) string {
	list := make([]rawTags, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, rawTags{[]byte(name), []byte(tags[name])})
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // bytes always marshal
	}
	return string(b)
}

// parseTags is the inverse of formatTags.
func parseTags(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no tags is no map, as the contract has it
	}
	if !strings.HasPrefix(text, "[") {
		var tags map[string]string
		if err := json.Unmarshal([]byte(text), &tags); err != nil {
			return nil, fmt.Errorf("tags %q: %w: %w", text, err, store.ErrCorrupt)
		}
		return tags, nil
	}
	var list []rawTags
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("tags %q: %w: %w", text, err, store.ErrCorrupt)
	}
	tags := make(map[string]string, len(list))
	for _, t := range list {
		tags[string(t.Name)] = string(t.Value)
	}
	return tags, nil
}
