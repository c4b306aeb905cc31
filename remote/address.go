package remote

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/dial"
)

// DefaultWorkerPort is the port at which servers expect workers.
const DefaultWorkerPort = "7172"

// envToken is the environment variable of a token that is not in the URL.
const envToken = "ABIDE_TOKEN"

// address is what the URL of a server says.
type address struct {
	hosts []string // with ports, in the order of the URL
	token string
	creds credentials.TransportCredentials
}

// options are the parameters that a URL may have.
var options = []string{"tls", "ca", "cert", "key", "servername"}

// parseAddress parses abide://[:token@]host[:port][,host[:port]…][?tls=off&ca=…&cert=…&key=…&servername=…].
//
// Connections are encrypted, and the server's certificate is verified, unless all hosts are of this machine
// or tls=off says that the network can be trusted.
func parseAddress(text string) (*address, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("remote: server address: "+format+": %w", append(args, abide.ErrInvalid)...)
	}
	rest, ok := strings.CutPrefix(text, dial.Scheme+"://")
	if !ok {
		return nil, fail("it does not begin with %s://", dial.Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fail("its parameters cannot be read")
	}
	for name, list := range values {
		if !slices.Contains(options, name) || len(list) != 1 {
			return nil, fail("parameter %q is unknown or given twice; known are %s", name, strings.Join(options, ", "))
		}
	}
	a := &address{}
	rest = strings.TrimSuffix(rest, "/")
	if user, after, found := cutLast(rest, "@"); found {
		rest = after
		if a.token, err = url.QueryUnescape(strings.TrimPrefix(user, ":")); err != nil {
			return nil, fail("its token cannot be read")
		}
	}
	local := true
	for host := range strings.SplitSeq(rest, ",") {
		if host == "" || strings.ContainsAny(host, "/ ") {
			return nil, fail("it has no host, or %q is none; it looks like abide://server.example.com:%s", host, DefaultWorkerPort)
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), DefaultWorkerPort
		}
		a.hosts = append(a.hosts, net.JoinHostPort(name, port))
		local = local && isLocal(name)
	}
	if a.creds, err = transportOf(values, local); err != nil {
		return nil, fail("%w", err)
	}
	return a, nil
}

// cutLast is [strings.Cut] at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// transportOf returns how connections are secured.
func transportOf(values url.Values, local bool) (credentials.TransportCredentials, error) {
	ca, cert, key, name := values.Get("ca"), values.Get("cert"), values.Get("key"), values.Get("servername")
	switch mode := values.Get("tls"); {
	case mode != "" && mode != "on" && mode != "off":
		return nil, fmt.Errorf("tls is %q; on and off are allowed", mode)
	case mode == "off", mode == "" && local && ca == "" && cert == "" && name == "":
		if ca != "" || cert != "" || key != "" || name != "" {
			return nil, fmt.Errorf("ca, cert, key and servername are of use with tls=on only")
		}
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM form", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("cert and key are given together")
	}
	if cert != "" {
		// It is read for each connection, as it is renewed while the program runs.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
		if _, err := config.GetClientCertificate(nil); err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
	}
	return newTLS(config), nil
}
