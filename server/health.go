package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// readyWait is how long the store may take to answer before the server is not ready.
const readyWait = 2 * time.Second

// addHealth adds what machines ask to know how the server is.
func (s *Server) addHealth() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") })
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			writeProblem(w, newProblem(http.StatusServiceUnavailable, api.CodeUnavailable, "the server is not ready", err.Error()))
			return
		}
		writeText(w, "ready")
	})
	if s.cfg.Telemetry != nil {
		metrics := s.cfg.Telemetry.Handler()
		s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if who, _ := auth.Of(r.Context()); who.Tenants != nil {
				writeProblem(w, newProblem(http.StatusForbidden, api.CodeForbidden, "metrics are of all tenants", who.Name+" has access to some alone"))
				return
			}
			metrics.ServeHTTP(w, r)
		})
	}
}

var errDraining = errors.New("the server is about to stop")

// ready returns an error if requests had better go elsewhere.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if s.cfg.Store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if _, err := s.cfg.Store.Stats(ctx); err != nil {
		s.log.Warn("the server is not ready", "error", err)
		return errors.New("the store does not answer; the server's log says more")
	}
	return nil
}

// sweepEvery is how often what was kept long enough is removed.
const sweepEvery = 10 * time.Minute

// Run does what the server has to do besides answering, until ctx ends: bulk operations,
// and removing what was kept long enough.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Store == nil {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct{ err error }
	var parts []func(context.Context) error
	if s.cfg.Operations != nil {
		parts = append(parts, s.cfg.Operations.Run)
	}
	if s.cfg.Auth != nil {
		parts = append(parts, s.cfg.Auth.Run)
	}
	parts = append(parts, s.sweep)
	ended := make(chan result, len(parts))
	for _, part := range parts {
		go func() { ended <- result{part(ctx)} }()
	}
	var errs []error
	for range parts {
		r := <-ended
		if r.err != nil {
			errs = append(errs, r.err)
			cancel() // the others are of no use alone
		}
	}
	return errors.Join(errs...)
}

func (s *Server) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.sweepKeys(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("answers that were kept long enough could not be removed", "error", err)
		}
		_ = base.Sleep(ctx, s.clock, sweepEvery) // ctx tells how that ended
	}
	return nil
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}
