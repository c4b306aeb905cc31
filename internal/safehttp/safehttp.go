// Package safehttp makes HTTP requests to where others choose, without reaching what only
// this machine can reach.
//
// An address that is not public is refused, after its name was resolved and before a
// connection is made, unless it is allowed: the owner of a name decides what it resolves
// to. Proxies of the environment are not used, because they would make connections that
// nobody looks at. Redirects are not followed, as long as a caller uses the transport
// itself and no client.
package safehttp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrPrivate means that an address is not public, and not allowed either. It is worth
// another try, because the name may get another address.
var ErrPrivate = errors.New("private address")

// Config is what a transport is made of.
type Config struct {
	// Timeout is how long it may take to connect, and again to agree on keys.
	Timeout time.Duration

	// MaxHeader is how many bytes the header of an answer may have.
	MaxHeader int64

	// Keep is how many connections to a host are kept for later requests. With none, each
	// request has a new one: then a request is sent once, whereas on a kept one, which may
	// turn out to be broken, some are sent again.
	Keep int

	// AllowPrivate allows all addresses, AllowedPrefixes these in addition to the public
	// ones.
	AllowPrivate    bool
	AllowedPrefixes []netip.Prefix

	// TLS is for receivers with a certificate of their own, or that ask for one. Nil means
	// the authorities that the system trusts.
	TLS *tls.Config
}

// NewTransport returns what makes connections. The prefixes must be such as [CheckPrefix]
// allows.
func NewTransport(cfg Config) *http.Transport {
	dialer := &net.Dialer{Timeout: cfg.Timeout, Control: guard(&cfg)}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    cfg.Timeout,
		MaxIdleConnsPerHost:    cfg.Keep,
		DisableKeepAlives:      cfg.Keep == 0,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: cfg.MaxHeader,
		DisableCompression:     true,
		// With HTTP/1 a request has its connection for itself: one that hangs takes no other
		// with it.
		Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if cfg.TLS != nil {
		t.TLSClientConfig = cfg.TLS.Clone()
	}
	return t
}

// CheckPrefix returns an error that says what is allowed.
func CheckPrefix(p netip.Prefix) error {
	if !p.IsValid() || p.Addr().Is4In6() {
		return fmt.Errorf("it is %q; a prefix such as 10.0.0.0/8 or fd00::/8 is allowed", p)
	}
	return nil
}

// guard returns what looks at an address after its name was resolved, and before
// anything is sent there.
func guard(cfg *Config) func(network, address string, _ syscall.RawConn) error {
	if cfg.AllowPrivate {
		return nil
	}
	var v4, v6 []netip.Prefix
	for _, p := range cfg.AllowedPrefixes {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	guardian := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return func(network, address string, c syscall.RawConn) error {
		if err := guardian.Safe(network, address, c); err != nil {
			return fmt.Errorf("%s is not public, and neither Config.AllowPrivate nor Config.AllowedPrefixes allows it: %w", address, ErrPrivate)
		}
		return nil
	}
}
