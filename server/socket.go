package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/abidehq/abide/internal/socket"
	"github.com/abidehq/abide/server/auth"
)

// Limits of the connections at the socket of the store.
const (
	socketConns   = 256
	socketHeader  = 10 * time.Second // for the header of a request
	socketBody    = time.Minute      // for a whole request
	socketIdle    = 2 * time.Minute
	socketDrain   = time.Second // for requests under way when Run ends; then their contexts end
	socketStop    = 5 * time.Second
	maxSocketHead = 64 << 10
)

// Local returns the handler for the socket of an embedded store. Each request has the identity of a
// local administrator: only the owner of the store can open the socket. Clients that find the server
// by its store do not know [Config.Prefix], which is added to the path.
func (s *Server) Local() http.Handler {
	owner := auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(auth.With(r.Context(), owner))
		u := *r.URL
		u.Path = s.cfg.Prefix + u.Path
		if u.RawPath != "" {
			u.RawPath = s.cfg.Prefix + u.RawPath
		}
		r.URL = &u
		s.ServeHTTP(w, r)
	})
}

// socketDir returns the folder beside which to listen, or nothing.
func (s *Server) socketDir() string {
	if in, ok := s.cfg.Store.(interface{ Dir() string }); ok && s.cfg.Socket {
		return in.Dir()
	}
	return ""
}

// serveSocket answers at the socket of the store in a folder until ctx ends.
func (s *Server) serveSocket(ctx context.Context, dir string) error {
	sock, err := socket.Listen(ctx, dir)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	base, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	web := &http.Server{
		BaseContext: func(net.Listener) context.Context { return base },
		Handler:     s.Local(), ReadHeaderTimeout: socketHeader, ReadTimeout: socketBody, IdleTimeout: socketIdle, MaxHeaderBytes: maxSocketHead,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(netutil.LimitListener(sock, socketConns)) }()
	select {
	case err = <-served:
		err = fmt.Errorf("server: serve %s: %w", sock.Path, err)
	case <-ctx.Done():
		defer s.clock.AfterFunc(socketDrain, interrupt)() // streams, unless the program has called Drain
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), socketStop)
		defer cancel()
		if stopping := web.Shutdown(late); stopping != nil {
			s.log.Warn("requests interrupted", "server", "socket", "error", stopping)
			_ = web.Close()
		}
		<-served
	}
	return errors.Join(err, sock.Close())
}
