package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/metric"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/server/web"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// Config is what a server is made of. What is nil is not served.
type Config struct {
	// Prefix is the path under which the server is mounted, such as /abide. It begins
	// with a slash and does not end with one; empty means that it has all paths.
	Prefix string

	// Store is what all of the services below work on. It is where the server keeps what
	// it has to remember itself, and stays the caller's.
	Store store.Store

	// Engine serves instances: an [abide.Engine], or a client of one.
	Engine abide.Caller

	// Timers are served at /api/v1/timers.
	Timers *timer.Service

	// Actions are served at /api/v1/actions and /api/v1/schedules.
	Actions *action.Service

	// Operations are served at /api/v1/operations. Nil means those on Store and Engine.
	Operations *operation.Service

	// Hooks takes webhooks at /hooks/{slug}.
	Hooks http.Handler

	// Auth says who may do what. Its tokens are served at /api/v1/tokens. Nil means that
	// everybody may do everything: then the program that mounts the server must restrict
	// who reaches it.
	Auth *auth.Guard

	// Telemetry measures, and is served at /metrics.
	Telemetry *telemetry.Telemetry

	// Page serves the web page.
	Page bool

	// Socket has [Server.Run] listen at the socket beside an embedded store, such as
	// abide-data.sock, through which the command line reaches the store while this program has it
	// open: abide instances list --db abide-data. Only the owner of the store can open the socket,
	// and everybody who does is an administrator. Other stores have no socket: the command line
	// opens them itself.
	Socket bool

	// Hosts are names under which the server can be reached, besides addresses and
	// localhost, by those who need not say who they are.
	Hosts []string

	// URL is where browsers find the server, if a proxy stands before it that tells the
	// server another name: https://abide.example.com.
	URL string

	// IdempotencyKeys is how many new keys a caller may use within [IdempotencyLife]:
	// [MaxIdempotencyKeys], unless it says otherwise.
	IdempotencyKeys int

	// Version is shown on the page and in the API docs. Empty means the version of this module in
	// the program.
	Version string

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger

	// Clock tells the time. Nil means the system's.
	Clock clock.Clock
}

// Server is Abide over HTTP.
type Server struct {
	cfg      Config
	engine   *abide.Client // of cfg.Engine, nil if there is none
	log      *slog.Logger
	clock    base.Clock
	mux      *http.ServeMux
	api      huma.API
	page     http.Handler // nil if there is none
	handler  http.Handler // all of it, from the outside in
	live     *live        // streams, and requests that wait
	meters   *meters
	draining atomic.Bool
	pings    pings              // of the store, by /readyz
	refusals *ratelimit.Buckets // entries of the audit log about requests that were refused
	keys     *ratelimit.Buckets // idempotency keys, by caller
}

var _ http.Handler = (*Server)(nil)

const (
	// maxBody is the largest body of a request to the API, in bytes, and maxBulkBody that of
	// one with many things in it.
	maxBody     = 1 << 20
	maxBulkBody = 32 << 20
)

// New returns a server. [Server.Run] does what it has to do besides answering.
func New(cfg Config) (*Server, error) {
	if cfg.Prefix != "" && (!strings.HasPrefix(cfg.Prefix, "/") || strings.HasSuffix(cfg.Prefix, "/")) {
		return nil, fmt.Errorf("server: the prefix is %q; it begins with a slash and does not end with one, such as /abide", cfg.Prefix)
	}
	if cfg.Store == nil && (cfg.Engine != nil || cfg.Page) {
		return nil, fmt.Errorf("server: instances and the page need the store that they are in, as Config.Store")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	cfg.Version = cmp.Or(cfg.Version, builtVersion())
	if cfg.IdempotencyKeys == 0 {
		cfg.IdempotencyKeys = MaxIdempotencyKeys
	}
	if cfg.Operations == nil && cfg.Store != nil && cfg.Engine != nil {
		var err error
		cfg.Operations, err = operation.New(operation.Config{Store: cfg.Store, Client: cfg.Engine.AsClient(), Clock: cfg.Clock, Logger: cfg.Logger})
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	s := &Server{cfg: cfg, log: cfg.Logger, clock: cfg.Clock, mux: http.NewServeMux(), live: newLive()}
	if cfg.Engine != nil {
		s.engine = cfg.Engine.AsClient()
	}
	s.refusals, s.keys = ratelimit.New(cfg.Clock), ratelimit.New(cfg.Clock)
	var provider metric.MeterProvider // the global one
	if cfg.Telemetry != nil {
		provider = cfg.Telemetry.MeterProvider()
	}
	var err error
	if s.meters, err = newMeters(provider); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	config := huma.DefaultConfig("Abide", s.cfg.Version)
	config.CreateHooks = nil // no $schema in answers
	config.DocsPath, config.SchemasPath = "", ""
	config.OpenAPIPath = "/openapi"
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{toProblem}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "An API token: see abide tokens create."},
	}
	if cfg.Prefix != "" {
		config.Servers = []*huma.Server{{URL: cfg.Prefix}}
	}
	s.api = humago.New(s.mux, config)
	if err := s.addAll(); err != nil {
		return nil, err
	}
	if s.handler, err = s.wrap(s.mux); err != nil {
		return nil, err
	}
	return s, nil
}

// builtVersion returns the version of this module that the program was built with.
func builtVersion() string {
	const module = "github.com/abidehq/abide"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}

// addAll adds the routes of everything that is served.
func (s *Server) addAll() error {
	if s.engine != nil {
		s.addInstances()
	}
	if s.cfg.Actions != nil {
		s.addActions()
		s.addSchedules()
	}
	if s.cfg.Timers != nil {
		s.addTimers()
		s.addSinks()
	}
	if s.cfg.Operations != nil {
		s.addOperations()
	}
	s.addHealth()
	s.addDocs()
	s.addWhoami()
	if s.cfg.Auth != nil {
		s.addTokens()
	}
	if s.cfg.Hooks != nil {
		s.mux.Handle("/hooks/{slug}", s.cfg.Hooks)
	}
	if s.cfg.Auth != nil {
		s.mux.Handle("/auth/", s.cfg.Auth.Login())
	}
	if s.cfg.Page {
		return s.addPage()
	}
	return nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// auditForPage returns how the page reads the audit log, nil if there is none. Reading it is
// noted, as over the API.
func (s *Server) auditForPage() func(context.Context, auth.AuditQuery) (auth.AuditPage, error) {
	if s.cfg.Auth == nil {
		return nil
	}
	return func(ctx context.Context, q auth.AuditQuery) (auth.AuditPage, error) {
		page, err := s.cfg.Auth.Audit(ctx, q)
		s.noteEntry(ctx, auth.Entry{Operation: "list-audit", Tenant: q.Tenant, Status: http.StatusOK}, err)
		return page, err
	}
}

// addPage adds the web page, which has all paths that nothing else has.
func (s *Server) addPage() error {
	samples := func() []telemetry.Sample { return nil }
	if s.cfg.Telemetry != nil {
		samples = s.cfg.Telemetry.Samples
	}
	page, err := web.New(web.Config{
		Prefix: s.cfg.Prefix, Store: s.cfg.Store, Engine: s.engine, Timers: s.cfg.Timers, Actions: s.cfg.Actions,
		Operations: s.cfg.Operations, Samples: samples, Guarded: s.needsToken(), Version: s.cfg.Version,
		Logger: s.log, Clock: s.clock,
		Note: func(ctx context.Context, operation, tenant, target, detail string, err error) {
			entry := auth.Entry{Operation: operation, Tenant: tenant, Target: target, Detail: detail, Status: http.StatusSeeOther}
			var told interface{ StatusCode() int }
			if errors.As(err, &told) { // the page has answered with it, and it is no error of the server
				entry.Status, entry.Error, err = told.StatusCode(), err.Error(), nil
			}
			s.noteEntry(ctx, entry, err)
		},
		Audit: s.auditForPage(),
		Intend: func(ctx context.Context, operation, target string) error {
			return s.intend(ctx, auth.Entry{Operation: operation, Target: target})
		},
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.page = page
	return nil
}
