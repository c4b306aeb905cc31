package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	made int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, made: 1}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	check.OK(t, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	return key
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// sign returns a certificate for a client.
func (a *authority) sign(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	a.made++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.made), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	check.OK(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestCertificates talks TLS for real: what the server has not verified is never seen.
func TestCertificates(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	ca, stranger := newAuthority(t), newAuthority(t)
	g := people(r.guard(Config{Certificates: []Certificate{
		{URI: "spiffe://example.com/shop/*", Role: Operate, Tenants: []string{"shop"}},
		{CommonName: "backup", DNS: "*.backup.example.com", Name: "the backup", Role: Read},
		{Email: "operator@example.com", Role: Admin},
		{CommonName: "anything*", Role: Read},
	}}))
	_, secret := r.token(g, NewToken{Name: "a service"})
	session, err := g.startSession(t.Context(), session{kind: BySession, subject: "p1", name: "a person", role: Admin})
	check.OK(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.Identify(r)
		switch {
		case errors.Is(err, ErrMalformed):
			fmt.Fprint(w, "malformed")
		case errors.Is(err, ErrNone):
			fmt.Fprint(w, "none")
		case errors.Is(err, ErrCrossOrigin):
			fmt.Fprint(w, "cross-origin")
		case err != nil:
			fmt.Fprint(w, err)
		default:
			fmt.Fprintf(w, "%s|%s|%s|%s|%s", who.Kind, who.Subject, who.Name, who.Role, who.Tenants)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca.pool()}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are refused
	server.StartTLS()
	t.Cleanup(server.Close)

	cn := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	uri := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, _ := url.Parse(text)
			c.URIs = []*url.URL{u}
		}
	}
	for name, tt := range map[string]struct {
		cert    *tls.Certificate
		headers []string
		method  string
		want    string // empty: there is no connection
	}{
		"by URI":         {cert: new(ca.sign(uri("spiffe://example.com/shop/web"))), want: "certificate|spiffe://example.com/shop/web|spiffe://example.com/shop/web|operate|[shop]"},
		"by another URI": {cert: new(ca.sign(uri("spiffe://example.com/shopping"))), want: "none"},
		"by name and DNS": {cert: new(ca.sign(func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "backup", []string{"a.example.com", "1.backup.example.com"}
		})), want: "certificate|1.backup.example.com|the backup|read|[]"},
		"by name alone":          {cert: new(ca.sign(cn("backup"))), want: "none"},
		"by email":               {cert: new(ca.sign(func(c *x509.Certificate) { c.EmailAddresses = []string{"operator@example.com"} })), want: "certificate|operator@example.com|operator@example.com|admin|[]"},
		"no name":                {cert: new(ca.sign(func(*x509.Certificate) {})), want: "none"},
		"no certificate":         {want: "none"},
		"with a token":           {cert: new(ca.sign(cn("anything"))), headers: []string{"Authorization: Bearer " + secret}, want: "malformed"},
		"unknown, and a token":   {cert: new(ca.sign(cn("other"))), headers: []string{"Authorization: Bearer " + secret}, want: "token"},
		"with a session":         {cert: new(ca.sign(cn("anything"))), headers: []string{"Cookie: __Host-abide_session=" + session}, want: "session|p1"},
		"with an old session":    {cert: new(ca.sign(cn("anything"))), headers: []string{"Cookie: __Host-abide_session=" + newSecret()}, want: "certificate|anything"},
		"page of another origin": {cert: new(ca.sign(cn("anything"))), headers: []string{"Sec-Fetch-Site: cross-site"}, method: http.MethodPost, want: "cross-origin"},
		"of another authority":   {cert: new(stranger.sign(cn("anything")))},
		"expired":                {cert: new(ca.sign(func(c *x509.Certificate) { c.Subject.CommonName, c.NotAfter = "anything", time.Now().Add(-time.Minute) }))},
		"of a server": {cert: new(ca.sign(func(c *x509.Certificate) {
			c.Subject.CommonName, c.ExtKeyUsage = "anything", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}))},
	} {
		t.Run(name, func(t *testing.T) {
			config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			if tt.cert != nil {
				// Also one of which the server does not say that it would take it.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.cert, nil }
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			defer client.CloseIdleConnections()
			req := request(http.MethodGet, server.URL, tt.headers...)
			req.RequestURI = ""
			if tt.method != "" {
				req.Method = tt.method
			}
			resp, err := client.Do(req)
			if tt.want == "" {
				if err == nil {
					t.Errorf("answered %q", body(t, resp))
				}
				return
			}
			check.OK(t, err)
			if got := body(t, resp); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestCertificateThatExpiresMeanwhile: a connection lasts longer than a certificate may.
func TestCertificateThatExpiresMeanwhile(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{Certificates: []Certificate{{CommonName: "backup", Role: Read}}, Rate: 1})
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "backup"}, NotAfter: noon.Add(time.Hour)}
	req := request(http.MethodGet, "/")
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	if _, err := g.Identify(req); !errors.Is(err, ErrNone) {
		t.Errorf("not verified: %v", err)
	}
	req.TLS.VerifiedChains = [][]*x509.Certificate{{cert}}
	for range Burst {
		if _, err := g.Identify(req); err != nil {
			t.Fatal(err)
		}
	}
	var limit *RateError
	if _, err := g.Identify(req); !errors.As(err, &limit) {
		t.Errorf("more requests than the rate: %v", err)
	}
	r.clock.Advance(time.Hour + time.Second)
	if _, err := g.Identify(req); !errors.Is(err, ErrNone) {
		t.Errorf("after it has expired: %v", err)
	}
}
