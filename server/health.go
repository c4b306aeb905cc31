package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

const (
	// readyWait is how long the store may take to answer before the server is not ready.
	readyWait = 2 * time.Second

	// readyLife is how long an answer of the store counts, for all who ask.
	readyLife = time.Second

	// kindReady is the kind of a record that does not exist: reading it costs next to
	// nothing, whatever the store holds.
	kindReady = "ready"
)

// addHealth adds what machines ask to know how the server is.
func (s *Server) addHealth() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") })
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			writeProblem(w, newProblem(http.StatusServiceUnavailable, api.CodeUnavailable, "server not ready", err.Error()))
			return
		}
		writeText(w, "ready")
	})
	if s.cfg.Telemetry != nil {
		metrics := s.cfg.Telemetry.Handler()
		s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if who, _ := auth.Of(r.Context()); who.Tenants != nil {
				writeProblem(w, newProblem(http.StatusForbidden, api.CodeForbidden, "access to all tenants required", who.Name+" has access to some alone"))
				return
			}
			metrics.ServeHTTP(w, r)
		})
	}
}

var errDraining = errors.New("the server is about to stop")

// errNoAnswer is what a client learns of a store that does not answer.
var errNoAnswer = errors.New("the store does not answer; the server's log says more")

// ready returns an error if requests had better go elsewhere.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if s.cfg.Store == nil {
		return nil
	}
	return s.pings.result(ctx, s)
}

// pings reads from the store to see whether it answers. One read is in flight at a time, its
// result is shared by all callers and kept for readyLife: asking costs the store the same,
// however many ask.
type pings struct {
	mu       sync.Mutex
	inFlight chan struct{} // closed when the read has ended; nil if there is none
	at       time.Time     // of the last result, or zero
	err      error
}

// result returns nil if the store answers within readyWait. A read that is late is not
// followed by another one before it has ended.
func (p *pings) result(ctx context.Context, s *Server) error {
	p.mu.Lock()
	if age := s.clock.Now().Sub(p.at); !p.at.IsZero() && age >= 0 && age < readyLife {
		defer p.mu.Unlock()
		return p.err
	}
	if p.inFlight == nil {
		p.inFlight = make(chan struct{})
		go p.ping(context.WithoutCancel(ctx), s)
	}
	ended := p.inFlight
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	select {
	case <-ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-ctx.Done():
		return errNoAnswer
	}
}

// ping reads, and keeps the result.
func (p *pings) ping(ctx context.Context, s *Server) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	_, err := s.cfg.Store.Get(ctx, store.RecordKey{Kind: kindReady, ID: kindReady})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err != nil {
		s.log.Warn("readiness check failed", "error", err)
		err = errNoAnswer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.err = s.clock.Now(), err
	close(p.inFlight)
	p.inFlight = nil
}

// sweepEvery is how often what was kept long enough is removed.
const sweepEvery = 10 * time.Minute

// Run does what the server has to do besides answering, until ctx ends: bulk operations,
// removing what was kept long enough, and answering at the socket of the store, see
// [Config.Socket]. It returns an error if that cannot be opened.
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
	if dir := s.socketDir(); dir != "" {
		parts = append(parts, func(ctx context.Context) error { return s.serveSocket(ctx, dir) })
	}
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
			s.log.Warn("expired idempotency keys not removed", "error", err)
		}
		_ = base.Sleep(ctx, s.clock, sweepEvery) // ctx tells how that ended
	}
	return nil
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}
