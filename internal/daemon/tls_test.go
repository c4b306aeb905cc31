package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	pool *x509.CertPool

	expired bool // what it signs from now on
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	a.cert, a.key = a.sign("authority", true)
	a.pool.AddCert(a.cert)
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) sign(name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(a.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check.OK(a.t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if a.expired {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check.OK(a.t, err)
	cert, err := x509.ParseCertificate(der)
	check.OK(a.t, err)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	check.OK(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue writes a certificate and its key.
func (a *authority) issue(name, file string) tls.Certificate {
	a.t.Helper()
	cert, key := a.sign(name, false)
	der, err := x509.MarshalECPrivateKey(key)
	check.OK(a.t, err)
	pair, err := tls.LoadX509KeyPair(a.write(file+".crt", "CERTIFICATE", cert.Raw), a.write(file+".key", "EC PRIVATE KEY", der))
	check.OK(a.t, err)
	return pair
}

// client trusts the authority, and shows certificates.
func (a *authority) client(certs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: a.pool, Certificates: certs},
		ForceAttemptHTTP2: true,
	}}
}

func (a *authority) text(more string) string {
	return fmt.Sprintf("tls: {cert: %[1]s/server.crt, key: %[1]s/server.key%[2]s}\n", a.dir, strings.ReplaceAll(more, "DIR", a.dir))
}

// TestTLS: the certificate is read again when somebody says so, and one that cannot be read
// changes nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("first", "server")
	r := start(t, configure(t, a.text("")), nil)
	if !r.serving.TLS || !strings.HasPrefix(r.serving.URL, "https://") {
		t.Errorf("it says that it serves %+v", r.serving)
	}
	name := func() string {
		conn, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.serving.URL, "https://"), "/"), &tls.Config{RootCAs: a.pool, NextProtos: []string{"h2"}})
		check.OK(t, err)
		defer conn.Close()
		state := conn.ConnectionState()
		return state.PeerCertificates[0].Subject.CommonName + " " + state.NegotiatedProtocol
	}
	check.Equal(t, "the certificate is of", name(), "first h2")
	if status, _ := r.get(a.client(), "/openapi.json"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	a.issue("second", "server")
	r.reload <- struct{}{}
	check.Eventually(t, "the other certificate is used", func() bool { return name() == "second h2" })
	a.write("server.crt", "NOTHING", nil)
	r.reload <- struct{}{}
	check.Eventually(t, "the mistake is in the log", func() bool { return strings.Contains(r.logs.String(), "certificates not reloaded") })
	check.Equal(t, "after a mistake the certificate is of", name(), "second h2")
	if answer, err := http.Get(strings.Replace(r.serving.URL, "https", "http", 1)); err == nil { //nolint:noctx // nobody answers it
		_ = answer.Body.Close()
		check.Equal(t, "without TLS: status", answer.StatusCode, http.StatusBadRequest)
	}
}

// TestCertificatesOfClients: a rule says what they may do, and who has none may do nothing.
func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	a.issue("server", "server")
	rules := "auth: {certificates: [{common_name: billing, role: read}]}\n"
	r := start(t, configure(t, a.text(", client_ca: DIR/ca.pem")+rules), nil)
	for _, tt := range []struct {
		name   string
		client *http.Client
		want   int
	}{
		{"none", a.client(), http.StatusUnauthorized},
		{"a rule", a.client(a.issue("billing", "billing")), http.StatusOK},
		{"no rule", a.client(a.issue("shipping", "shipping")), http.StatusUnauthorized},
	} {
		if status, body := r.get(tt.client, "/api/v1/instances"); status != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.name, status, tt.want, body)
		}
	}
	if _, _, err := r.try(a.client(other.issue("billing", "billing")), "/api/v1/instances"); err == nil {
		t.Error("a certificate of somebody else's authority is taken")
	}

	strict := start(t, configure(t, a.text(", client_ca: DIR/ca.pem, require_client: true")+rules), nil)
	if _, _, err := strict.try(a.client(), "/healthz"); err == nil {
		t.Error("who has no certificate is let in")
	}
	if status, _ := strict.get(a.client(a.issue("billing", "again")), "/api/v1/instances"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// TestMistakesOfTLS are found before anybody is let in.
func TestMistakesOfTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("server", "server")
	for want, text := range map[string]string{
		"tls.cert":      "tls: {cert: /not/there, key: /not/there}",
		"tls.client_ca": a.text(", client_ca: DIR/server.key"),
	} {
		err := Run(t.Context(), Options{Config: configure(t, text), Store: memory(t), Logger: discard()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", want, err)
		}
	}
}
