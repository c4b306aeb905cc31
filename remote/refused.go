package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/abidehq/abide/internal/base"
)

// refusalWait is how long a connection whose write has failed is read for the reason.
const refusalWait = time.Second

// newTLS returns credentials as those of gRPC, whose connections say why a server has refused them.
//
// With TLS 1.3 the client's handshake is over before the server has seen the client's certificate. A
// server that refuses it sends an alert and closes, and the first write may fail with "broken pipe" before
// the alert has been read.
func newTLS(config *tls.Config) credentials.TransportCredentials {
	return &tlsCredentials{credentials.NewTLS(config)}
}

type tlsCredentials struct {
	credentials.TransportCredentials
}

func (c *tlsCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return &tlsConn{conn}, info, nil
}

func (c *tlsCredentials) Clone() credentials.TransportCredentials {
	return &tlsCredentials{c.TransportCredentials.Clone()}
}

// tlsConn is a connection whose failed writes tell the alert that the server has sent.
type tlsConn struct{ net.Conn }

func (c *tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || errors.Is(err, net.ErrClosed) {
		return n, err
	}
	_ = c.SetReadDeadline(base.System{}.Now().Add(refusalWait))
	_, reason := c.Read(make([]byte, 1))
	var alert tls.AlertError
	var op *net.OpError
	if errors.As(reason, &alert) || errors.As(reason, &op) && op.Op == "remote error" {
		err = reason
	}
	return n, err
}
