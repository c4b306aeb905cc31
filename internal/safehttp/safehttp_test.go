package safehttp

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestGuard looks at addresses without a connection, because most of them are not on
// this machine.
func TestGuard(t *testing.T) {
	t.Parallel()
	some := Config{AllowedPrefixes: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.1/32"),
		netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fd00:1::/32"),
	}}
	for _, c := range []struct {
		address       string
		public, allow bool // by default, and with some
	}{
		{"93.184.216.34:443", true, true},
		{"93.184.216.34:8443", true, true},
		{"[2606:2800:220:1::1]:443", true, true},
		{"127.0.0.1:443", false, true},
		{"127.0.0.2:443", false, false},
		{"[::1]:443", false, true},
		{"[::]:443", false, false},
		{"0.0.0.0:443", false, false},
		{"10.0.0.1:443", false, false},
		{"10.1.2.3:443", false, true},
		{"172.16.0.1:443", false, false},
		{"192.168.1.1:443", false, false},
		{"100.64.0.1:443", false, false},
		{"169.254.169.254:80", false, false},
		{"[fe80::1]:443", false, false},
		{"[fe80::1%eth0]:443", false, false},
		{"[fd00::1]:443", false, false},
		{"[fd00:1::1]:443", false, true},
		{"[fd00:ec2::254]:80", false, false},
		{"[::ffff:127.0.0.1]:443", false, false}, // a dialer gives it as IPv4
		{"[::ffff:169.254.169.254]:80", false, false},
		{"[64:ff9b::a9fe:a9fe]:80", false, false},
		{"[2002:7f00:1::]:443", false, false},
		{"224.0.0.1:443", false, false},
		{"255.255.255.255:443", false, false},
		{"no address", false, false},
	} {
		network := "tcp4"
		if strings.HasPrefix(c.address, "[") {
			network = "tcp6"
		}
		for _, g := range []struct {
			name string
			cfg  Config
			want bool
		}{{"by default", Config{}, c.public}, {"with prefixes", some, c.allow}} {
			err := guard(&g.cfg)(network, c.address, nil)
			if (err == nil) != g.want || errors.Is(err, ErrPrivate) == g.want {
				t.Errorf("%s %s: %v", c.address, g.name, err)
			}
		}
	}
	if guard(&Config{AllowPrivate: true}) != nil {
		t.Error("all addresses are allowed, and yet they are looked at")
	}
}

// TestTransport: that there is no proxy, and no second sending, is up to these fields.
func TestTransport(t *testing.T) {
	t.Parallel()
	given := &tls.Config{ServerName: "a.example", MinVersion: tls.VersionTLS13}
	once := NewTransport(Config{Timeout: time.Second, MaxHeader: 10})
	kept := NewTransport(Config{Timeout: time.Second, Keep: 3, TLS: given})
	for name, transport := range map[string]*http.Transport{"once": once, "kept": kept} {
		if transport.Proxy != nil || transport.Protocols.HTTP2() || !transport.Protocols.HTTP1() || !transport.DisableCompression {
			t.Errorf("%s: a proxy, another protocol or compression may be used", name)
		}
		if transport.TLSHandshakeTimeout != time.Second {
			t.Errorf("%s: a handshake may take %v", name, transport.TLSHandshakeTimeout)
		}
	}
	if !once.DisableKeepAlives || kept.DisableKeepAlives || kept.MaxIdleConnsPerHost != 3 || once.MaxResponseHeaderBytes != 10 {
		t.Error("connections are not kept as they should be, or the header has no limit")
	}
	given.ServerName = "changed later"
	if kept.TLSClientConfig.ServerName != "a.example" || kept.TLSClientConfig.MinVersion != tls.VersionTLS13 {
		t.Errorf("TLS is for %q", kept.TLSClientConfig.ServerName)
	}
}

func TestCheckPrefix(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"10.0.0.0/8": true, "fd00::/8": true, "::ffff:10.0.0.0/104": false, "": false} {
		p, _ := netip.ParsePrefix(text)
		if err := CheckPrefix(p); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	given := http.Header{"authorization": {"Bearer t0ken"}, "X-Many": {"a", "b\tc"}}
	got, err := Header(given)
	given["X-Many"][0] = "changed later"
	if err != nil || got.Get("Authorization") != "Bearer t0ken" || strings.Join(got["X-Many"], " ") != "a b\tc" {
		t.Errorf("got %v, %v", got, err)
	}
	for says, header := range map[string]http.Header{
		"it has Host, which is not":            {"hOST": {"hunter2"}},
		"it has Idempotency-Key, which is not": {"idempotency-key": {"hunter2"}},
		`it has the name ""`:                   {"": {"hunter2"}},
		`it has the name "a b"`:                {"a b": {"hunter2"}},
		"it has a control character in X-A":    {"x-a": {"hunter2\r\nX-B: c"}},
		"it has X-A twice":                     {"x-a": {"hunter2"}, "X-A": {"hunter2"}},
	} {
		_, err := Header(header, "Idempotency-Key")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
	}
}
