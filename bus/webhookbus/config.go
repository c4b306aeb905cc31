package webhookbus

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/standardwebhooks"
)

// Mode is how an event is encoded in a request.
type Mode string

// Modes of a request.
const (
	Structured Mode = "structured" // the body is the event, as JSON
	Binary     Mode = "binary"     // the body is the payload, headers hold the rest
)

// Limits of the fields of a [Config].
const (
	MaxTimeout     = 10 * time.Minute
	MaxConcurrency = 256
)

// Config configures a [Bus].
type Config struct {
	// URL gets the requests. It begins with https://, or with http:// if AllowHTTP is
	// set. A user and password in it become a header of basic authentication.
	URL       string
	AllowHTTP bool

	// Mode is the CloudEvents mode. Empty means [Structured].
	Mode Mode

	// Source is the source of the events, a URI reference. Empty means abide.
	Source string

	// Secrets sign the requests: whsec_ and then 24 to 64 bytes in base64. While one is
	// replaced by another, both are here. With none, requests are not signed.
	Secrets []string

	// Header is sent with each request, such as Authorization. It cannot hold the headers
	// that an event, a signature or HTTP itself needs.
	Header http.Header

	// Timeout is the timeout of a request, including the response. Zero means 15 s.
	Timeout time.Duration

	// Concurrency is the number of concurrent requests of one Publish. Zero means 16. Requests
	// begin in the order of the envelopes; only with 1 do they also arrive in that order.
	Concurrency int

	// AllowPrivate allows all addresses, AllowedPrefixes these in addition to the public
	// ones.
	AllowPrivate    bool
	AllowedPrefixes []netip.Prefix

	// TLS is for receivers with a certificate of their own, or that ask for one. Nil means
	// the authorities that the system trusts.
	TLS *tls.Config

	// Clock is the time of signatures and measures the timeout. Nil means the system's clock.
	Clock clock.Clock
}

func (c *Config) setDefaults() {
	if c.Mode == "" {
		c.Mode = Structured
	}
	if c.Source == "" {
		c.Source = "abide"
	}
	if c.Timeout == 0 {
		c.Timeout = 15 * time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Clock == nil {
		c.Clock = base.System{}
	}
}

// validate returns an error that names the field and what is allowed, and shows
// nothing that may be secret.
func (c *Config) validate() error {
	switch {
	case c.Mode != Structured && c.Mode != Binary:
		return invalid("Mode", "is %q; %s and %s are allowed", c.Mode, Structured, Binary)
	case !validSource(c.Source):
		return invalid("Source", "is %q; it must be a URI or a part of one", c.Source)
	case c.Timeout < time.Millisecond || c.Timeout > MaxTimeout:
		return invalid("Timeout", "is %v; 1ms to %v is allowed", c.Timeout, MaxTimeout)
	case c.Concurrency < 1 || c.Concurrency > MaxConcurrency:
		return invalid("Concurrency", "is %d; 1 to %d is allowed", c.Concurrency, MaxConcurrency)
	}
	for i, p := range c.AllowedPrefixes {
		if !p.IsValid() || p.Addr().Is4In6() {
			return invalid(fmt.Sprintf("AllowedPrefixes[%d]", i), "is %q; a prefix such as 10.0.0.0/8 or fd00::/8 is allowed", p)
		}
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("webhookbus: Config.%s %s: %w", field, fmt.Sprintf(format, args...), bus.ErrInvalid)
}

func validSource(s string) bool {
	_, err := url.Parse(s)
	return err == nil && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' })
}

// target parses the URL. In a mistyped URL any part may hold the secret, so an error shows
// none of them.
func (c *Config) target() (*url.URL, error) {
	schemes, allowed := []string{"https"}, "it must look like https://host/path; AllowHTTP allows http://"
	if c.AllowHTTP {
		schemes, allowed = append(schemes, "http"), "it must look like https://host/path or http://host/path"
	}
	switch u, err := url.Parse(c.URL); {
	case c.URL == "":
		return nil, invalid("URL", "is empty; %s", allowed)
	case err != nil, u.Hostname() == "":
		return nil, invalid("URL", "is not a URL with a host; %s", allowed)
	case !slices.Contains(schemes, u.Scheme):
		return nil, invalid("URL", "has a scheme that is not allowed; %s", allowed)
	default:
		return u, nil
	}
}

func (c *Config) secrets() ([]standardwebhooks.Secret, error) {
	secrets := make([]standardwebhooks.Secret, len(c.Secrets))
	for i, text := range c.Secrets {
		s, err := standardwebhooks.ParseSecret(text)
		if err != nil {
			return nil, invalid(fmt.Sprintf("Secrets[%d]", i), "is not allowed: %v", err)
		}
		secrets[i] = s
	}
	return secrets, nil
}

// reserved are headers that HTTP or this package sets, or that change what a request
// means. So are those that begin with Ce- and Webhook-.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// header returns what is sent with each request.
func (c *Config) header(user *url.Userinfo) (http.Header, error) {
	header := http.Header{"User-Agent": {"abide"}}
	for name, values := range c.Header {
		canonical := http.CanonicalHeaderKey(name)
		if slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, "Ce-") || strings.HasPrefix(canonical, "Webhook-") {
			return nil, invalid("Header", "has %s, which is not the caller's to set", canonical)
		}
		if !validHeaderName(name) {
			return nil, invalid("Header", "has the name %q; letters, digits and dashes are allowed", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }) {
				return nil, invalid("Header", "has a control character in %s; text is allowed", canonical)
			}
		}
		header[canonical] = slices.Clone(values)
	}
	if user != nil {
		if header.Get("Authorization") != "" {
			return nil, invalid("Header", "has Authorization, and the URL has a user; one of them is allowed")
		}
		password, _ := user.Password()
		r := http.Request{Header: header}
		r.SetBasicAuth(user.Username(), password)
	}
	return header, nil
}

func validHeaderName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return name != ""
}
