package safehttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// reserved are headers that HTTP itself sets, or that change what a request means.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Header returns a copy of what is to be sent with each request, with names in their
// canonical form. An error says what is wrong with it, and shows no value: that may be
// secret. Besides those of HTTP itself, it must not have the headers of taken, which the
// caller sets.
func Header(header http.Header, taken ...string) (http.Header, error) {
	canonical := http.Header{}
	for name, values := range header {
		key := http.CanonicalHeaderKey(name)
		switch {
		case slices.Contains(reserved, key) || slices.Contains(taken, key):
			return nil, fmt.Errorf("it has %s, which is not the caller's to set", key)
		case !validName(name):
			return nil, fmt.Errorf("it has the name %q; letters, digits and dashes are allowed", name)
		case canonical[key] != nil:
			return nil, fmt.Errorf("it has %s twice, in different spellings; one is allowed", key)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }) {
				return nil, fmt.Errorf("it has a control character in %s; text is allowed", key)
			}
		}
		canonical[key] = append([]string{}, values...)
	}
	return canonical, nil
}

func validName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return name != ""
}
