package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/socket"
	"github.com/abidehq/abide/remote"
)

// Environment variables that name the server and the token to use.
const (
	EnvServer    = "ABIDE_SERVER"
	EnvToken     = "ABIDE_TOKEN"
	EnvTokenFile = "ABIDE_TOKEN_FILE"
)

// serverFlags say how to reach a server.
type serverFlags struct {
	URL           string
	CA, Cert, Key string
}

// AddTo gives a command the flags.
func (s *serverFlags) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.URL, "server", "", "address of a server, such as http://127.0.0.1:7171; $ABIDE_SERVER if not given. $ABIDE_TOKEN or $ABIDE_TOKEN_FILE is the token")
	f.StringVar(&s.CA, "ca", "", "file with the certificates that a server's is checked against, instead of the system's")
	f.StringVar(&s.Cert, "cert", "", "file with the certificate to show to a server")
	f.StringVar(&s.Key, "key", "", "file with the key of --cert")
}

// useServer calls f with what is at a server.
func (h *Home) useServer(cmd *cobra.Command, address string, f func(ctx context.Context, b Backend) error) error {
	client, err := h.Server.connect(cmd, address)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(cmd.Context(), serverBackend{client})
}

// useSocket calls f with what is at the process that has the store open.
func useSocket(ctx context.Context, p Place, f func(ctx context.Context, b Backend) error) error {
	path, err := socket.Find(p.Dir)
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
		return nil, console.AsUsage(err)
	}
	return client, nil
}

// readToken returns the token that the environment has, or names the file of.
func readToken() (string, error) {
	token, file := os.Getenv(EnvToken), os.Getenv(EnvTokenFile)
	switch {
	case token != "" && file != "":
		return "", console.Usage("both %s and %s are set; one of them is allowed", EnvToken, EnvTokenFile)
	case file == "":
		return strings.TrimSpace(token), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", console.Usage("%s: %w", EnvTokenFile, err)
	}
	if token = strings.TrimSpace(string(data)); token == "" {
		return "", console.Usage("%s names %s, which is empty", EnvTokenFile, file)
	}
	return token, nil
}

// tlsConfig returns what the flags say of certificates, or nil if they say nothing.
func (s *serverFlags) tlsConfig() (*tls.Config, error) {
	if s.CA == "" && s.Cert == "" && s.Key == "" {
		return nil, nil
	}
	if (s.Cert == "") != (s.Key == "") {
		return nil, console.Usage("--cert and --key are needed together")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		data, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, console.Usage("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, console.Usage("--ca is %s, which has no certificate in the form of PEM", s.CA)
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, console.Usage("--cert and --key: %w", err)
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
