// Package grpcserve has what the gRPC services of a server share: the connections, who makes a call, and how
// a caller is refused.
package grpcserve

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/abidehq/abide/server/auth"
)

// Config is what a server is made of.
type Config struct {
	// TLS is how connections are secured. Nil means not at all.
	TLS *tls.Config

	// KeepAlive is how long a connection may be silent before it is probed, and how long the answer may take
	// then. A peer that is frozen or cut off is lost after the sum.
	KeepAlive time.Duration

	// MaxMessage is the largest message, in bytes, and Window the flow-control window.
	MaxMessage int
	Window     int32
}

// Limits of connections.
const (
	connectWithin = 10 * time.Second
	minPing       = 5 * time.Second // peers that probe the connection more often are cut off
	maxStreams    = 10_000          // of a connection: sessions, and calls
	readBuffer    = 8 << 10         // of a connection; most are idle
	writeBuffer   = 32 << 10        // gRPC shares it among connections that are idle
)

// New returns a gRPC server without services.
func New(cfg Config) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.MaxMessage), grpc.MaxSendMsgSize(cfg.MaxMessage), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ReadBufferSize(readBuffer), grpc.WriteBufferSize(writeBuffer), grpc.ConnectionTimeout(connectWithin),
		grpc.InitialWindowSize(cfg.Window), grpc.InitialConnWindowSize(cfg.Window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.KeepAlive, Timeout: cfg.KeepAlive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.StatsHandler(connections{}),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	return grpc.NewServer(options...)
}

// connections gives the context of each connection a channel that is closed when the connection is.
type connections struct{}

type connectionKey struct{}

func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, make(chan struct{}))
}

func (connections) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ended := s.(*stats.ConnEnd); ended {
		if gone, ok := ctx.Value(connectionKey{}).(chan struct{}); ok {
			close(gone)
		}
	}
}

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (connections) HandleRPC(context.Context, stats.RPCStats) {}

// Disconnected returns a channel that is closed when the connection of a call is, which may be long after the
// call has ended.
func Disconnected(ctx context.Context) <-chan struct{} {
	gone, _ := ctx.Value(connectionKey{}).(chan struct{})
	return gone
}

// Request returns the HTTP request that stands for a call, by which a guard knows who makes it.
func Request(ctx context.Context, path *url.URL) *http.Request {
	r := (&http.Request{Method: http.MethodPost, Header: http.Header{}, Host: "localhost"}).WithContext(ctx)
	r.URL = path
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		for _, value := range md.Get("authorization") {
			r.Header.Add("Authorization", value)
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	return r
}

// Refusal returns the error of a call whose caller a guard does not know or allow.
func Refusal(err error) error {
	_, tooMany := errors.AsType[*auth.RateError](err)
	switch {
	case tooMany:
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, auth.ErrNone), errors.Is(err, auth.ErrUnknown), errors.Is(err, auth.ErrMalformed), errors.Is(err, auth.ErrCrossOrigin):
		return status.Error(codes.Unauthenticated, err.Error())
	case errors.Is(err, auth.ErrForbidden):
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return status.Error(codes.Unavailable, "who connects cannot be found out now: see the server's log")
}
