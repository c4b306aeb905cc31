package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// Config is what the page is made of. A service that is nil has no place on it.
type Config struct {
	// Prefix stands before the path of every link, such as /abide, for a page that is
	// mounted elsewhere than at the root. The paths of requests come without it.
	Prefix string

	// Store is where all of the services below keep what they know; it counts things.
	Store store.Store

	// Engine is for instances, quarantine and workers. If it is an [abide.Watcher], pages
	// with instances change as soon as they do.
	Engine abide.Caller

	Timers     *timer.Service
	Actions    *action.Service
	Operations *operation.Service

	// Samples are the latest measurements, the oldest first. Nil means no charts.
	Samples func() []telemetry.Sample

	// Guarded says that commands need a token.
	Guarded bool

	// Note is told of every change that was asked for, whose it is, and what came of it; the
	// tenant is empty if it is not just one, and detail is what the form says, without
	// payloads, as JSON. Nil means nobody is.
	Note func(ctx context.Context, operation, tenant, target, detail string, err error)

	// Intend is told of a change before it is made, at which path. If it returns an error, the
	// change is not made. Nil means nobody is.
	Intend func(ctx context.Context, operation, target string) error

	// Audit reads the audit log for who the context names. Nil means that there is none.
	Audit func(ctx context.Context, q auth.AuditQuery) (auth.AuditPage, error)

	// Version is that of the program.
	Version string

	// Logger gets what a person should know. Nil means [slog.Default].
	Logger *slog.Logger

	// Clock is what "in 3 min" is counted from. Nil means the system's.
	Clock clock.Clock
}

// site is the page, all of it.
type site struct {
	cfg       Config
	log       *slog.Logger
	clock     base.Clock
	mux       *http.ServeMux
	pages     map[string]*template.Template
	assets    map[string]asset
	hub       *hub
	engine    *abide.Client // of cfg.Engine, nil if there is none
	windows   windows
	shapes    shapes
	storeName string
	sections  []section

	unservedSeen unservedCount
	limitsSeen   limitMemory
}

// section is an entry of the menu.
type section struct {
	Name  string
	Path  string
	Title string

	Alarms int    // what needs a person there
	Alarm  string // what it is
}

// New returns the page. Its caller authenticates requests, see
// [auth.With], and for refusing forms that another site sends.
func New(cfg Config) (http.Handler, error) {
	if cfg.Store == nil {
		return nil, errors.New("web: no store")
	}
	if cfg.Prefix != "" && (!strings.HasPrefix(cfg.Prefix, "/") || strings.HasSuffix(cfg.Prefix, "/")) {
		return nil, fmt.Errorf("web: prefix %q: it begins with a slash and does not end with one", cfg.Prefix)
	}
	s := &site{cfg: cfg, log: cfg.Logger, clock: cfg.Clock, mux: http.NewServeMux(), storeName: nameOf(cfg.Store)}
	if cfg.Engine != nil {
		s.engine = cfg.Engine.AsClient()
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.clock == nil {
		s.clock = base.System{}
	}
	s.hub = newHub(s)
	if err := s.loadAssets(); err != nil {
		return nil, err
	}
	if err := s.loadTemplates(); err != nil {
		return nil, err
	}
	s.routes()
	return s, nil
}

// routes adds what the services that there are can show, in the order of the menu.
func (s *site) routes() {
	s.section("overview", "/", "Overview")
	s.page("GET /{$}", s.overview)
	s.mux.HandleFunc("GET /live", s.live)
	s.page("GET /help", func(*request) (view, error) {
		return view{template: "help", title: "Keys and words", data: glossary}, nil
	})
	s.mux.HandleFunc("GET /static/{name}", s.static)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNoPage) })
	if s.engine != nil {
		s.addInstances()
	}
	if s.cfg.Timers != nil {
		s.addTimers()
	}
	if s.cfg.Actions != nil {
		s.addActions()
		s.addSchedules()
	}
	if s.cfg.Timers != nil {
		s.addSinks()
	}
	if s.engine != nil {
		s.addEntities()
		s.addLimits()
		s.addQuarantine()
		s.addWorkers()
		s.addBuilds()
	}
	if sharded, ok := s.cfg.Store.(store.Sharded); ok {
		s.addShards(sharded)
	}
	if s.cfg.Operations != nil {
		s.addOperations()
	}
	if s.cfg.Audit != nil {
		s.addAudit()
	}
}

func (s *site) section(name, path, title string) {
	s.sections = append(s.sections, section{Name: name, Path: path, Title: title})
}

// policy is the content security policy: what the page loads comes from this server, and
// no script or style stands in a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP answers a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm) // whatever the method: a form in parts is read for any
	s.mux.ServeHTTP(w, r)
}

// path returns where a page is for a browser.
func (s *site) path(p string) string { return s.cfg.Prefix + p }

// nameOf returns what a store is called in its URL, from the name of its package.
func nameOf(st store.Store) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", st), "*")
	name, _, _ = strings.Cut(name, ".")
	if name == "memstore" {
		return "memory"
	}
	return strings.TrimSuffix(name, "store")
}
