package webhookbus

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
)

// TestConfig: an error names the field and what is allowed, and shows no secret: all of
// them are called hunter2 here.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Config)
		says   string // empty if it is allowed
	}{
		{"only a URL", func(*Config) {}, ""},
		{"all fields", func(c *Config) {
			*c = Config{
				URL: "http://user:pass@[::1]:8080/a?b=c#d", AllowHTTP: true, Mode: Binary, Source: "/a%20b",
				Secrets: []string{secret("a")}, Header: http.Header{"X-Tenant": {"é", "b"}, "user-agent": {"x"}},
				Timeout: MaxTimeout, Concurrency: MaxConcurrency,
				AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			}
		}, ""},
		{"no URL", func(c *Config) { c.URL = "" }, "Config.URL is empty; it must look like https://host/path"},
		{"http", func(c *Config) { c.URL = "http://a.example/hunter2" }, "AllowHTTP allows http://"},
		{"another scheme", func(c *Config) { c.URL, c.AllowHTTP = "ftp://hunter2@a.example", true }, "Config.URL has a scheme that is not allowed; it must look like https://host/path or http://host/path"},
		{"no scheme", func(c *Config) { c.URL = "a.example/hunter2" }, "Config.URL is not a URL with a host"},
		{"no host", func(c *Config) { c.URL = "https:///hunter2" }, "Config.URL is not a URL with a host"},
		{"only a port", func(c *Config) { c.URL = "https://:443/hunter2" }, "Config.URL is not a URL with a host"},
		{"a password that breaks the URL", func(c *Config) { c.URL = "https://user:hunter2#@a.example" }, "Config.URL is not a URL with a host"},
		{"a control character", func(c *Config) { c.URL = "https://a.example/\nhunter2" }, "Config.URL is not a URL with a host"},
		{"an unknown mode", func(c *Config) { c.Mode = "batched" }, `Config.Mode is "batched"; structured and binary are allowed`},
		{"a source with a space", func(c *Config) { c.Source = "a b" }, "Config.Source is \"a b\"; it must be a URI"},
		{"a source that is not ASCII", func(c *Config) { c.Source = "é" }, "Config.Source"},
		{"a broken source", func(c *Config) { c.Source = "%zz" }, "Config.Source"},
		{"a negative timeout", func(c *Config) { c.Timeout = -1 }, "Config.Timeout is -1ns; 1ms to 10m0s is allowed"},
		{"a long timeout", func(c *Config) { c.Timeout = MaxTimeout + 1 }, "Config.Timeout"},
		{"negative concurrency", func(c *Config) { c.Concurrency = -1 }, "Config.Concurrency is -1; 1 to 256 is allowed"},
		{"too much concurrency", func(c *Config) { c.Concurrency = 257 }, "Config.Concurrency is 257"},
		{"a prefix that is none", func(c *Config) { c.AllowedPrefixes = make([]netip.Prefix, 1) }, "Config.AllowedPrefixes[0] is"},
		{"an IPv4 prefix in IPv6", func(c *Config) {
			c.AllowedPrefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:10.0.0.0/104")}
		}, "Config.AllowedPrefixes[1] is \"::ffff:10.0.0.0/104\"; a prefix such as 10.0.0.0/8"},
		{"a secret without its prefix", func(c *Config) { c.Secrets = []string{secret("a"), "hunter2"} }, "Config.Secrets[1] is not allowed: standardwebhooks: parse secret: it must start with whsec_"},
		{"a secret that is too short", func(c *Config) { c.Secrets = []string{"whsec_hunter2="} }, "Config.Secrets[0]"},
		{"a header of ours", func(c *Config) { c.Header = http.Header{"content-type": {"hunter2"}} }, "Config.Header has Content-Type, which is not the caller's to set"},
		{"a header of HTTP", func(c *Config) { c.Header = http.Header{"HOST": {"hunter2"}} }, "Config.Header has Host"},
		{"an attribute", func(c *Config) { c.Header = http.Header{"ce-tenantid": {"hunter2"}} }, "Config.Header has Ce-Tenantid"},
		{"a signature", func(c *Config) { c.Header = http.Header{"webhook-signature": {"hunter2"}} }, "Config.Header has Webhook-Signature"},
		{"a header without a name", func(c *Config) { c.Header = http.Header{"": {"hunter2"}} }, `Config.Header has the name ""`},
		{"a header with a space", func(c *Config) { c.Header = http.Header{"a b": {"hunter2"}} }, `Config.Header has the name "a b"`},
		{"a header that ends the line", func(c *Config) { c.Header = http.Header{"x-a": {"hunter2\r\nX-B: c"}} }, "Config.Header has a control character in X-A"},
		{"two ways to authenticate", func(c *Config) {
			c.URL, c.Header = "https://user:hunter2@a.example", http.Header{"authorization": {"Bearer hunter2"}}
		}, "Config.Header has Authorization, and the URL has a user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{URL: "https://a.example/hook"}
			c.change(&cfg)
			b, err := New(cfg)
			if c.says == "" {
				if err != nil || b == nil {
					t.Errorf("the error is %v", err)
				}
				return
			}
			wantError(t, err, c.says)
			if !errors.Is(err, bus.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	b, err := New(Config{URL: "https://a.example"})
	check.OK(t, err)
	if c := b.cfg; c.Mode != Structured || c.Source != "abide" || c.Timeout != 15*time.Second || c.Concurrency != 16 || c.Clock == nil {
		t.Errorf("the defaults are %v, %q, %v, %d, %v", c.Mode, c.Source, c.Timeout, c.Concurrency, c.Clock)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	given := http.Header{"authorization": {"Bearer t0ken"}, "X-Many": {"a", "b"}}
	b := newBus(t, r.URL, func(c *Config) { c.Header = given })
	given["X-Many"][0] = "changed later"
	withUser := newBus(t, strings.Replace(r.URL, "http://", "http://user:p%40ss@", 1), func(c *Config) { c.Header = http.Header{"User-Agent": {"me"}} })
	for _, b := range []*Bus{b, withUser} {
		check.OK(t, publishOne(t, b, envelope("id-1")))
	}
	first, second := r.got()[0].Header, r.got()[1].Header
	if a, m, u := first.Get("Authorization"), first.Values("X-Many"), first.Get("User-Agent"); a != "Bearer t0ken" || strings.Join(m, " ") != "a b" || u != "abide" {
		t.Errorf("Authorization is %q, X-Many is %q, User-Agent is %q", a, m, u)
	}
	req := http.Request{Header: second}
	if user, password, _ := req.BasicAuth(); user != "user" || password != "p@ss" || second.Get("User-Agent") != "me" {
		t.Errorf("the user is %q, the password %q, the agent %q", user, password, second.Get("User-Agent"))
	}
}
