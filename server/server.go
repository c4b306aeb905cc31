package server

import (
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/abidehq/abide/action"
)

// Config is what a server is made of. What is nil is not served.
type Config struct {
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
	api := humago.New(s.mux, config)
	if cfg.Actions != nil {
		s.addActions(api)
		s.addSchedules(api)
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
	s.mux.ServeHTTP(w, r)
}
