package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/remote"
)

// Variables of the environment that say which server to talk to, and as whom.
const (
	envServer    = "ABIDE_SERVER"
	envToken     = "ABIDE_TOKEN"
	envTokenFile = "ABIDE_TOKEN_FILE"
)

// serverFlags say how to reach a server.
type serverFlags struct {
	url           string
	ca, cert, key string
}

// addTo gives a command the flags.
func (s *serverFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.url, "server", "", "address of a server, such as http://127.0.0.1:7171; $ABIDE_SERVER if not given. $ABIDE_TOKEN or $ABIDE_TOKEN_FILE is the token")
	f.StringVar(&s.ca, "ca", "", "file with the certificates that a server's is checked against, instead of the system's")
	f.StringVar(&s.cert, "cert", "", "file with the certificate to show to a server")
	f.StringVar(&s.key, "key", "", "file with the key of --cert")
}

// useServer calls f with what is at a server.
func (h *home) useServer(cmd *cobra.Command, address string, f func(ctx context.Context, b backend) error) error {
	client, err := h.server.connect(cmd, address)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(cmd.Context(), serverBackend{client})
}

// useSocket calls f with what is at the process that has the store open.
func useSocket(ctx context.Context, p place, f func(ctx context.Context, b backend) error) error {
	path, err := findSocket(p.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", err, remote.ErrUnreachable)
	}
	client, err := remote.New((&url.URL{Scheme: "unix", Path: path}).String())
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, serverBackend{client})
}

// connect returns a client of the server at an address. It makes no connection yet.
func (s *serverFlags) connect(cmd *cobra.Command, address string) (*remote.Client, error) {
	var opts []remote.Option
	token, err := readToken()
	if err != nil {
		return nil, err
	}
	if token != "" {
		if inTheClear(address) {
			cmd.PrintErrf("warning: the token goes to %s in the clear; https would hide it\n", shownAddress(address))
		}
		opts = append(opts, remote.WithToken(token))
	}
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append(opts, remote.WithTLS(config))
	}
	client, err := remote.New(address, opts...)
	if err != nil {
		return nil, &usageError{err}
	}
	return client, nil
}

// readToken returns the token that the environment has, or names the file of.
func readToken() (string, error) {
	token, file := os.Getenv(envToken), os.Getenv(envTokenFile)
	switch {
	case token != "" && file != "":
		return "", usage("both %s and %s are set; one of them is allowed", envToken, envTokenFile)
	case file == "":
		return strings.TrimSpace(token), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", usage("%s: %w", envTokenFile, err)
	}
	if token = strings.TrimSpace(string(data)); token == "" {
		return "", usage("%s names %s, which is empty", envTokenFile, file)
	}
	return token, nil
}

// tlsConfig returns what the flags say of certificates, or nil if they say nothing.
func (s *serverFlags) tlsConfig() (*tls.Config, error) {
	if s.ca == "" && s.cert == "" && s.key == "" {
		return nil, nil
	}
	if (s.cert == "") != (s.key == "") {
		return nil, usage("--cert and --key are needed together")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		data, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, usage("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, usage("--ca is %s, which has no certificate in the form of PEM", s.ca)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, usage("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// inTheClear reports whether others on the way to an address can read what is sent.
func inTheClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// shownAddress is an address without a password.
func shownAddress(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "the server"
}
