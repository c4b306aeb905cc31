package natsbus

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/abidehq/abide/bus"
)

const hexadecimal = "0123456789ABCDEF"

// token returns a name as one token of a subject: see the package comment. NATS would
// take more than is left as it is here, but tools and access rules differ in what
// they take, and white space, dots and wildcards are taken nowhere.
func token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexadecimal[c>>4], hexadecimal[c&15]})
		}
	}
	return b.String()
}

// tenantOf returns the tenant in the subject of a command, or nothing if there is none.
func tenantOf(prefix, subject string) string {
	rest, ok := strings.CutPrefix(subject, prefix+".commands.")
	if !ok {
		return "" // a stream can rewrite subjects
	}
	part, _, _ := strings.Cut(rest, ".")
	name, err := url.PathUnescape(part)
	if err != nil || token(name) != part {
		return "" // not what token makes
	}
	return name
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// checkPrefix allows what a token is made of, and dots between tokens.
func checkPrefix(prefix string) error {
	for part := range strings.SplitSeq(prefix, ".") {
		if part == "" || part != token(part) {
			return fmt.Errorf("natsbus: prefix %q must be letters, digits, _ and -, with dots between: %w", prefix, bus.ErrInvalid)
		}
	}
	return nil
}

// streamName returns the name of a stream if it was given none. Streams must not have
// dots in their names.
func streamName(prefix, kind string) string {
	return strings.ReplaceAll(prefix, ".", "_") + "_" + kind
}

// covers reports whether each subject that matches the second pattern matches the
// first one too.
func covers(pattern, other string) bool {
	a, b := strings.Split(pattern, "."), strings.Split(other, ".")
	for i, part := range a {
		switch {
		case i == len(b):
			return false
		case part == ">":
			return true
		case b[i] == ">", part != "*" && part != b[i]:
			return false
		}
	}
	return len(a) == len(b)
}

// anyCovers reports whether one of the patterns covers the subject.
func anyCovers(patterns []string, subject string) bool {
	for _, p := range patterns {
		if covers(p, subject) {
			return true
		}
	}
	return false
}
