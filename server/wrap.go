package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// wrap puts around the routes what holds for all of them, from the outside in: the ID of
// the request, panics, the prefix, and who has sent it and from where.
func (s *Server) wrap(routes http.Handler) (http.Handler, error) {
	origin := http.NewCrossOriginProtection()
	if s.cfg.URL != "" {
		if err := origin.AddTrustedOrigin(s.cfg.URL); err != nil {
			return nil, fmt.Errorf("server: Config.URL is %q; it is a scheme and a host, such as https://abide.example.com: %w", s.cfg.URL, err)
		}
	}
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := s.mux.Handler(r); pattern == "" {
			if s.page != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
				s.servePage(w, r)
				return
			}
			w = &noRoute{ResponseWriter: w}
		}
		routes.ServeHTTP(w, withPageSize(r))
	})
	known := s.identified(origin, inner)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Prefix != "" {
			path, ok := strings.CutPrefix(r.URL.Path, s.cfg.Prefix)
			if !ok || path != "" && path[0] != '/' {
				writeProblem(w, newProblem(http.StatusNotFound, api.CodeNotFound, "no such route", "everything here begins with "+s.cfg.Prefix))
				return
			}
			if path == "" {
				http.Redirect(w, r, s.cfg.Prefix+"/", http.StatusPermanentRedirect)
				return
			}
			r = stripped(r, s.cfg.Prefix)
			if to, ok := tidied(r.URL); !ok {
				http.Redirect(w, r, s.cfg.Prefix+to, http.StatusTemporaryRedirect)
				return
			}
		}
		q := newRequest(r)
		if s.cfg.Auth != nil {
			q.remote = s.cfg.Auth.Remote(r)
		}
		w.Header().Set(headerRequestID, q.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.TLS != nil || strings.HasPrefix(s.cfg.URL, "https://") {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			w.Header().Set("Cache-Control", "no-store")
		}
		w, r, done := s.observe(w, r, q)
		defer func() { s.noteRefusal(r.Context(), q, done()) }()
		defer s.recovered(w, q)
		known.ServeHTTP(w, r.WithContext(withRequest(r.Context(), q)))
	}), nil
}

// servePage answers with the page. Its stream of what changes counts as the others do, and
// ends with them.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/live" {
		ctx, end, p := s.openStream(r.Context(), r)
		if p != nil {
			writeProblem(w, p)
			return
		}
		defer end()
		r = r.WithContext(ctx)
	}
	s.page.ServeHTTP(w, r)
}

// stripped returns the request without the prefix.
func stripped(r *http.Request, prefix string) *http.Request {
	u := *r.URL
	u.Path = strings.TrimPrefix(u.Path, prefix)
	u.RawPath = strings.TrimPrefix(u.RawPath, prefix)
	out := *r
	out.URL = &u
	return &out
}

// tidied returns an address without empty elements and dots in its path, and whether it was
// like that. Multiplexers would send clients there too, and leave out the prefix, of which
// they do not know: to routes of another handler.
func tidied(u *url.URL) (to string, ok bool) {
	have := u.EscapedPath()
	to = path.Clean(have)
	if strings.HasSuffix(have, "/") && to != "/" {
		to += "/"
	}
	if to == have {
		return to, true
	}
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to, false
}

// recovered answers a request whose handler has panicked.
func (s *Server) recovered(w http.ResponseWriter, q *request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	s.log.Error("request handler panicked", "request_id", q.id, "method", q.method, "path", q.path,
		"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	writeProblem(w, newProblem(http.StatusInternalServerError, api.CodeInternal, "internal error",
		"the server's log says more, at request "+q.id))
}

// isOpen reports whether a path is for everybody: what machines ask to know whether the
// server is there, what describes it, logging in, and hooks, which have their own proof.
func isOpen(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml", "/docs", "/docs.js", "/favicon.ico":
		return true
	}
	return strings.HasPrefix(path, "/auth/") || strings.HasPrefix(path, "/hooks/") || strings.HasPrefix(path, "/static/")
}

// identified lets requests through that have an identity. A page of another origin cannot
// make a browser change things in a user's name.
func (s *Server) identified(origin *http.CrossOriginProtection, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if !strings.HasPrefix(path, "/hooks/") {
			if err := origin.Check(r); err != nil {
				writeProblem(w, newProblem(http.StatusForbidden, api.CodeCrossOrigin, "cross-origin request refused", err.Error()))
				return
			}
		}
		if isOpen(path) { // nobody is looked up who need not say who they are
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.identify(r)
		if err != nil {
			s.turnAway(w, r, err)
			return
		}
		q := requestOf(r.Context())
		_, q.told = auth.Of(r.Context())
		if q.who = who; who.Kind == auth.Local && !q.told && !s.isOurs(r.Host) {
			writeProblem(w, newProblem(http.StatusForbidden, api.CodeForbidden, "unknown host",
				"without a token it is reached as localhost or by its address, and the request is for "+strconv.Quote(r.Host)))
			return
		}
		next.ServeHTTP(w, r.WithContext(abide.WithActor(auth.With(r.Context(), who), cmp.Or(who.Name, who.Subject))))
	})
}

// isOurs reports whether the Host of a request is a name of this server. A program that mounts the
// server without a guard checks that itself.
func (s *Server) isOurs(host string) bool {
	return s.cfg.Auth == nil || isLocalHost(host) ||
		slices.ContainsFunc(s.cfg.Hosts, func(name string) bool { return strings.EqualFold(name, hostName(host)) })
}

func (s *Server) identify(r *http.Request) (auth.Identity, error) {
	if who, ok := auth.Of(r.Context()); ok {
		return who, nil // set by the program that mounts the server, or by the socket
	}
	if s.cfg.Auth == nil {
		return auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}, nil
	}
	return s.cfg.Auth.Identify(r)
}

// turnAway answers who may not be here: a person who wants the page is asked to log in.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	var rate *auth.RateError
	switch {
	case errors.As(err, &rate):
		w.Header().Set("Retry-After", strconv.Itoa(int(rate.After.Seconds())+1))
		writeProblem(w, newProblem(http.StatusTooManyRequests, api.CodeRate, "too many requests", err.Error()))
	case errors.Is(err, auth.ErrForbidden):
		writeProblem(w, newProblem(http.StatusForbidden, api.CodeForbidden, "forbidden", err.Error()))
	case errors.Is(err, auth.ErrNone) || errors.Is(err, auth.ErrUnknown):
		if s.cfg.Page && r.Method == http.MethodGet && wantsPage(r) {
			next := s.cfg.Prefix + r.URL.RequestURI()
			http.Redirect(w, r, s.cfg.Prefix+"/auth/login?next="+url.QueryEscape(next), http.StatusSeeOther)
			return
		}
		title := "authentication required"
		if errors.Is(err, auth.ErrUnknown) {
			title = "the token is not known"
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeProblem(w, newProblem(http.StatusUnauthorized, api.CodeUnauthenticated, title, err.Error()))
	default:
		writeProblem(w, s.asProblem(err))
	}
}

// wantsPage reports whether a person with a browser has made the request.
func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != "/metrics" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func hostName(host string) string {
	name, _, found := strings.Cut(host, ":")
	if !found {
		return host
	}
	return name
}

// noteEntry notes a request in the audit log, and what came of it: the entry is on disk when
// the request is answered.
func (s *Server) noteEntry(ctx context.Context, entry auth.Entry, err error) {
	if s.cfg.Auth == nil {
		return
	}
	q := requestOf(ctx)
	q.noted = true
	if err != nil {
		p := s.asProblem(err)
		entry.Status, entry.Error = p.Status, p.Error()
	}
	// It is written even if the client has gone.
	if err := s.write(context.WithoutCancel(ctx), &entry); err != nil {
		s.log.Error("audit entry lost", "request_id", q.id, "operation", entry.Operation, "subject", entry.Subject,
			"target", entry.Target, "error", err)
	}
}

// write writes an entry of the audit log about a request.
func (s *Server) write(ctx context.Context, entry *auth.Entry) error {
	q := requestOf(ctx)
	who, _ := auth.Of(ctx)
	entry.RequestID, entry.Remote = q.id, q.remote
	entry.Subject, entry.Name, entry.Kind = who.Subject, who.Name, who.Kind
	return s.cfg.Auth.Note(ctx, *entry)
}

// intend notes what is about to be done, if nothing must be done that is not noted. The
// outcome is another entry, with the same request ID.
func (s *Server) intend(ctx context.Context, entry auth.Entry) error {
	if s.cfg.Auth == nil || !s.cfg.Auth.AuditRequired() {
		return nil
	}
	entry.Operation += intent
	if err := s.write(ctx, &entry); err != nil {
		s.log.Error("request refused, audit log unavailable", "request_id", requestOf(ctx).id, "operation", entry.Operation, "error", err)
		return newProblem(http.StatusServiceUnavailable, api.CodeUnavailable, "audit log unavailable",
			"nothing was done, as auth.audit.required is set; the server's log says more")
	}
	return nil
}

// intent ends the operation of an entry about what is about to be done.
const intent = ":intent"

// Refusals in the audit log: so many of an address at once, and one more every so often; and
// so many of all addresses together. The log of the server counts the others.
const (
	refusalBurst     = 20
	refusalEvery     = 10 // seconds
	allRefusalsBurst = 1_000
	allRefusals      = 5 // a second
)

// noteRefusal notes a request that was refused before an operation could: for who makes it,
// or for what it asks.
func (s *Server) noteRefusal(ctx context.Context, q *request, status int) {
	if s.cfg.Auth == nil || q.noted || strings.HasPrefix(q.path, "/auth/") || strings.HasPrefix(q.path, "/hooks/") {
		return // logins are noted by the guard; hooks count what they refuse
	}
	changes := q.method != http.MethodGet && q.method != http.MethodHead
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
	case changes && (status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity):
	default:
		return
	}
	if s.refusals.Take(ratelimit.Source(q.remote), 1.0/refusalEvery, refusalBurst) > 0 || s.refusals.Take("", allRefusals, allRefusalsBurst) > 0 {
		return
	}
	entry := auth.Entry{
		Operation: cmp.Or(q.operation, "refused"), Tenant: q.tenant(), Target: q.method + " " + q.path, Status: status, Error: http.StatusText(status),
	}
	ctx = abide.WithActor(auth.With(withRequest(context.WithoutCancel(ctx), q), q.who), cmp.Or(q.who.Name, q.who.Subject))
	if err := s.write(ctx, &entry); err != nil {
		s.log.Error("audit entry lost", "request_id", q.id, "operation", entry.Operation, "target", entry.Target, "error", err)
	}
}
