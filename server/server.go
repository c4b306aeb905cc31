package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// Config is what a server is made of. What is nil is not served.
type Config struct {
	// Store is what all of the services below work on. It is where the server keeps what
	// it has to remember itself, and stays the caller's.
	Store store.Store

	// Engine serves instances: an [abide.Engine], or a client of one.
	Engine abide.Client

	// Timers are served at /api/v1/timers.
	Timers *timer.Service

	// Actions are served at /api/v1/actions and /api/v1/schedules.
	Actions *action.Service

	// Hooks takes webhooks at /hooks/{slug}.
	Hooks http.Handler

	// Version is that of the program.
	Version string

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger
}

// Server is Abide over HTTP.
type Server struct {
	cfg Config
	log *slog.Logger
	mux *http.ServeMux
	api huma.API
}

var _ http.Handler = (*Server)(nil)

// maxBody is the largest body of a request to the API, in bytes.
const maxBody = 1 << 20

// New returns a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Logger, mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.Default()
	}
	config := huma.DefaultConfig("Abide", cfg.Version)
	config.CreateHooks = nil // no $schema in answers
	config.DocsPath, config.SchemasPath = "", ""
	config.OpenAPIPath = "/openapi"
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{toProblem}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "An API token: see abide tokens create."},
	}
	s.api = humago.New(s.mux, config)
	if cfg.Actions != nil {
		s.addActions()
		s.addSchedules()
	}
	if cfg.Hooks != nil {
		s.mux.Handle("/hooks/{slug}", cfg.Hooks)
	}
	return s
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern == "" {
		w = &noRoute{ResponseWriter: w}
	}
	r = r.WithContext(auth.With(r.Context(), auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}))
	s.mux.ServeHTTP(w, r)
}

// note keeps account of a call that changes something.
func (s *Server) note(ctx context.Context, operation string, err error) {
	who, _ := auth.Of(ctx)
	s.log.Debug("a call that changes something", "operation", operation, "by", who.Subject, "error", err)
}
