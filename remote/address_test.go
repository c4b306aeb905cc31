package remote

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// TestAddresses: what the URL of a server says.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		hosts, token, security string
	}{
		"abide://127.0.0.1:7172":                     {"127.0.0.1:7172", "", "insecure"},
		"abide://localhost":                          {"localhost:7172", "", "insecure"},
		"abide://[::1]:9/":                           {"[::1]:9", "", "insecure"},
		"abide://server.example.com":                 {"server.example.com:7172", "", "tls"},
		"abide://a.example:1,b.example":              {"a.example:1 b.example:7172", "", "tls"},
		"abide://localhost,b.example":                {"localhost:7172 b.example:7172", "", "tls"},
		"abide://localhost?tls=on":                   {"localhost:7172", "", "tls"},
		"abide://b.example?tls=off":                  {"b.example:7172", "", "insecure"},
		"abide://:abide_x_y@b.example:1":             {"b.example:1", "abide_x_y", "tls"},
		"abide://abide_x%40y@b.example?servername=c": {"b.example:7172", "abide_x@y", "tls"},
		"abide://127.0.0.1?servername=b.example":     {"127.0.0.1:7172", "", "tls"},
	} {
		a, err := parseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		check.Equal(t, text+": hosts", strings.Join(a.hosts, " "), want.hosts)
		check.Equal(t, text+": token", a.token, want.token)
		check.Equal(t, text+": security", a.creds.Info().SecurityProtocol, want.security)
	}
	none := filepath.Join(t.TempDir(), "none")
	for text, want := range map[string]string{
		"http://b.example":             "does not begin with abide://",
		"abide://":                     "it has no host",
		"abide://a,,b":                 "it has no host",
		"abide://a/b":                  `"a/b" is none`,
		"abide://a?colour=red":         `parameter "colour" is unknown or given twice; known are tls, ca, cert, key, servername`,
		"abide://a?tls=on&tls=off":     "given twice",
		"abide://a?tls=maybe":          `tls is "maybe"; on and off are allowed`,
		"abide://a?tls=off&ca=x":       "are of use with tls=on only",
		"abide://a?ca=" + none:         "no such file",
		"abide://a?cert=x":             "cert and key are given together",
		"abide://a?cert=x&key=" + none: "no such file",
		"abide://%zz@a":                "token cannot be read",
		"abide://a?%zz":                "parameters cannot be read",
	} {
		_, err := parseAddress(text)
		check.ErrorOf(t, "remote", err, abide.ErrInvalid, want)
	}
}
