package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// funcs are what templates can call.
func (s *site) funcs() template.FuncMap {
	return template.FuncMap{
		"path":     s.path,
		"tag":      api.TypedTag,
		"with":     s.with,
		"file":     s.file,
		"when":     s.when,
		"silent":   s.silent,
		"zoned":    zoned,
		"exactly":  exactly,
		"after":    after,
		"lasting":  lasting,
		"seconds":  seconds,
		"number":   number,
		"number64": func(n int64) string { return number(int(n)) },
		"capped":   capped,
		"plural":   plural,
		"size":     size,
		"brief":    brief,
		"rate":     rate,
		"span":     span,
		"tenant":   tenantName,
		"payload":  payload,
		"inline":   inline,
		"glyph":    glyph,
		"tone":     tone,
		"sorted":   func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
		"causes":   causes,
		"address":  s.with,
		"bytes":    func(text string) []byte { return []byte(text) },
		"region":   func() template.HTML { return markRegion },
		"items":    func() template.HTML { return markItems },
		"item":     func() template.HTML { return markItem },
		"why":      func(info abide.Info) string { return reasonOf(&info) },
		"quote":    shellQuote,
		"instance": func(ref abide.Ref) string { return s.path(instancePath(ref)) },
		"entity":   func(ref abide.Ref) string { return s.path(entityPath(ref)) },
		"limit":    func(tenant, name string) string { return s.path(limitPath(tenant, name)) },
		"rule":     ruleWords,
		"under":    func(tenant, id string) abide.Ref { return abide.Ref{Tenant: tenant, ID: id} },
		"named":    func(base, tenant, name string) string { return s.path(base + segment(tenant) + "/" + segment(name)) },
		"list":     func(items ...any) []any { return items },
		"join":     func(items []string) string { return strings.Join(items, ", ") },
		"dict":     dict,
		"first":    firstLine,
		"rest":     otherLines,
	}
}

// dict makes a map of names and values that alternate, to hand to a part.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, errors.New("the name of an entry is no string")
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// maxShown is how much of a payload a page shows, in bytes.
const maxShown = 64 << 10

// payload returns bytes as a person reads them: JSON over several lines, text as it is, and
// anything else as a dump.
func payload(data []byte) string {
	var out bytes.Buffer
	switch {
	case len(data) == 0:
		return ""
	case json.Valid(data) && json.Indent(&out, data, "", "  ") == nil:
		return cut(out.String())
	case utf8.Valid(data) && !bytes.ContainsRune(data, 0):
		return cut(string(data))
	default:
		if len(data) > maxShown/8 {
			return hex.Dump(data[:maxShown/8]) + "… and " + size(int64(len(data)-maxShown/8)) + " more"
		}
		return hex.Dump(data)
	}
}

func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "\n… and " + size(int64(len(text)-maxShown)) + " more"
}

// inline returns the beginning of a payload, on one line.
func inline(data []byte) string {
	const most = 80
	if !utf8.Valid(data) {
		return size(int64(len(data))) + " of binary data"
	}
	text := strings.Join(strings.Fields(string(data[:min(len(data), 4*most)])), " ")
	if runes := []rune(text); len(runes) > most || len(data) > 4*most {
		return string(runes[:min(len(runes), most)]) + " …"
	}
	return text
}

// tones are the colours of statuses, of which there are fewer than statuses.
var tones = map[string]string{
	"running": "active", "active": "active", "armed": "active",
	"pending": "calm", "queued": "calm",
	"suspended": "hold", "paused": "hold", "retrying": "hold", "skipped": "hold", "stopping": "hold",
	"stalled": "alarm", "failed": "alarm", "quarantined": "alarm", "unserved": "alarm",
	"completed": "good", "fired": "good", "published": "good", "live": "good",
	"cancelled": "off", "terminated": "off", "ended": "off", "continued": "off", "done": "good",
}

func tone(status string) string {
	if t, ok := tones[status]; ok {
		return t
	}
	return "calm"
}

// glyphs tell statuses apart for those who do not see colours, beside the word.
var glyphs = map[string]string{
	"active": "▶", "calm": "○", "hold": "‖", "alarm": "▲", "good": "✓", "off": "■",
}

func glyph(status string) string { return glyphs[tone(status)] }

// causes returns an error and what is behind it, the outermost first.
func causes(err error) []string {
	var list []string
	for err != nil && len(list) < 16 {
		text := err.Error()
		// The type of this very error, not that of one behind it.
		if typed, ok := err.(interface{ FailureType() string }); ok && typed.FailureType() != "" {
			text = typed.FailureType() + ": " + text
		}
		if len(list) == 0 || list[len(list)-1] != text {
			list = append(list, text)
		}
		err = errors.Unwrap(err)
	}
	return list
}

// shellQuote returns a word as a shell reads it.
func shellQuote(word string) string {
	plain := word != ""
	for _, c := range word {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,", c) {
			plain = false
		}
	}
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
