package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/abidehq/abide/internal/config"
)

// certificates are those of the server, and the authorities of those of its clients. They
// can be read again while connections come in.
type certificates struct {
	cfg     *config.TLS
	current atomic.Pointer[tls.Config]
}

func loadCertificates(cfg *config.TLS) (*certificates, error) {
	c := &certificates{cfg: cfg}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files. Either all of them are used, or none.
func (c *certificates) load() error {
	pair, err := tls.LoadX509KeyPair(c.cfg.Cert, c.cfg.Key)
	if err != nil {
		return fmt.Errorf("tls.cert, tls.key: %w", err)
	}
	next := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.cfg.ClientCA != "" {
		text, err := os.ReadFile(c.cfg.ClientCA)
		if err != nil {
			return fmt.Errorf("tls.client_ca: %w", err)
		}
		next.ClientCAs = x509.NewCertPool()
		if !next.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("tls.client_ca: %s has no certificate in it", c.cfg.ClientCA)
		}
		next.ClientAuth = tls.VerifyClientCertIfGiven
		if c.cfg.RequireClient {
			next.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	c.current.Store(next)
	return nil
}

// config returns what a server is given: each connection meets what was read last.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load(), nil
		},
	}
}
