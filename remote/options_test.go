package remote_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
)

// who answers as the server does when it is asked who somebody is, with the header that
// it was sent as the name.
func who(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"name":"` + r.Header.Get("Authorization") + `"}`))
}

// ask returns the header Authorization that a server gets.
func ask(t *testing.T, address string, opts ...remote.Option) (string, error) {
	t.Helper()
	c, err := remote.New(address, opts...)
	check.OK(t, err)
	t.Cleanup(c.Close)
	out, err := c.Whoami(t.Context())
	return out.Name, err
}

func TestWithToken(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(who))
	t.Cleanup(s.Close)
	for _, tt := range []struct{ token, want string }{{"abide_x", "Bearer abide_x"}, {" abide_x\n", "Bearer abide_x"}, {"", ""}, {"\n", ""}} {
		if got, err := ask(t, s.URL, remote.WithToken(tt.token)); err != nil || got != tt.want {
			t.Errorf("%q: %q, %v", tt.token, got, err)
		}
	}
	for _, token := range []string{"a b", "a\r\nX-Evil: 1", "é", "a\x00"} {
		_, err := remote.New(s.URL, remote.WithToken(token))
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// TestTokenIsForOneServer: nobody that the server points to gets the token.
func TestTokenIsForOneServer(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(who))
	t.Cleanup(other.Close)
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	if got, err := ask(t, s.URL, remote.WithToken("abide_x")); err != nil || got != "" {
		t.Errorf("another server gets %q, %v", got, err)
	}
}

func TestWithTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(who))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are refused
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if _, err := ask(t, s.URL); !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("an authority that nobody trusts: %v", err)
	}
	for name, opts := range map[string][]remote.Option{
		"token first": {remote.WithToken("abide_x"), remote.WithTLS(config)},
		"TLS first":   {remote.WithTLS(config), remote.WithToken("abide_x")},
	} {
		if got, err := ask(t, s.URL, opts...); err != nil || got != "Bearer abide_x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, address := range []string{"http://127.0.0.1:7171", "unix:///tmp/x.sock"} {
		if _, err := remote.New(address, remote.WithTLS(config)); err == nil || !strings.Contains(err.Error(), "https") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
