package webhookbus

import (
	"errors"
	"io"
	"log"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
)

// quiet is for servers whose clients are meant to break off.
var quiet = log.New(io.Discard, "", 0)

// TestPrivateAddresses: by each way to write this machine's own address no connection
// is made, unless it is allowed.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{
		"127.0.0.1": "127.0.0.1:0", "localhost": "127.0.0.1:0", "[::ffff:127.0.0.1]": "127.0.0.1:0", "0.0.0.0": "127.0.0.1:0",
	}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // not every machine has IPv6
		_ = l.Close()
		hosts["[::1]"] = "[::1]:0"
	}
	for host, listen := range hosts {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			r := unstarted(t, nil)
			l, err := net.Listen("tcp", listen)
			check.OK(t, err)
			_ = r.Listener.Close()
			r.Listener = l
			r.Start()
			u, err := url.Parse(r.URL)
			check.OK(t, err)
			target := "http://" + host + ":" + u.Port()

			other := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
			for _, prefixes := range [][]netip.Prefix{nil, other} {
				err := publishOne(t, newBus(t, target, func(c *Config) { c.AllowPrivate, c.AllowedPrefixes = false, prefixes }), envelope("id-1"))
				if !errors.Is(err, ErrPrivate) || errors.Is(err, bus.ErrPermanent) {
					t.Errorf("the outcome is %v", err)
				}
				wantError(t, err, ":"+u.Port()+" is not public, and neither Config.AllowPrivate nor Config.AllowedPrefixes allows it")
			}
			if n := r.connections(); n > 0 {
				t.Fatalf("%d connections were made", n)
			}

			here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::1/128")}
			for name, change := range map[string]func(*Config){
				"AllowPrivate":    func(*Config) {},
				"AllowedPrefixes": func(c *Config) { c.AllowPrivate, c.AllowedPrefixes = false, here },
			} {
				if err := publishOne(t, newBus(t, target, change), envelope("id-1")); err != nil {
					t.Errorf("with %s: %v", name, err)
				}
			}
		})
	}
}

// TestNoProxy: a proxy would make connections that nobody looks at.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	if newBus(t, "https://a.example", nil).transport.Proxy != nil {
		t.Error("a proxy may be used")
	}
}
