package remote

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Option says how to talk to a server.
type Option func(*Client) error

// WithToken sends an API token with each request, to the server that the client was made
// for and to nobody that it may point to. Space around the token is left out, as it comes
// with a token that was read from a file; an empty one is not sent.
func WithToken(token string) Option {
	return func(c *Client) error {
		token := strings.TrimSpace(token)
		if token == "" {
			return nil
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("remote: the token has characters that a token cannot have")
		}
		home, err := url.Parse(c.base)
		if err != nil {
			return errors.New("remote: malformed address")
		}
		c.http.Transport = &bearer{next: c.http.Transport, scheme: home.Scheme, host: home.Host, header: "Bearer " + token}
		return nil
	}
}

// WithTLS says how to talk to a server at an https address: which authorities to trust, and
// which certificate to show. The configuration is copied.
func WithTLS(config *tls.Config) Option {
	return func(c *Client) error {
		if !strings.HasPrefix(c.base, "https://") {
			return errors.New("remote: a configuration of TLS is of use with an https address only")
		}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
		if usual, ok := http.DefaultTransport.(*http.Transport); ok {
			transport = usual.Clone()
		}
		transport.TLSClientConfig = config.Clone()
		if b, ok := c.http.Transport.(*bearer); ok {
			b.next = transport
			return nil
		}
		c.http.Transport = transport
		return nil
	}
}

// bearer sends a token to one server.
type bearer struct {
	next         http.RoundTripper // nil: the default
	scheme, host string
	header       string
}

// RoundTrip adds the token to a request.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	if r.URL.Scheme == b.scheme && r.URL.Host == b.host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", b.header)
	}
	return next.RoundTrip(r)
}

// CloseIdleConnections closes the connections that are kept for later.
func (b *bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
