package auth

import (
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/store"
)

// Paths of the login, below [Config.Prefix].
const (
	pathLogin    = "/auth/login"
	pathCallback = "/auth/callback"
	pathLogout   = "/auth/logout"
)

// Operations of the login in the audit log.
const (
	opLogin  = "login"
	opLogout = "logout"
)

//go:embed login.html
var loginPage string

var loginTemplate = template.Must(template.New("login").Parse(loginPage))

// Login serves the paths /auth/login, /auth/callback and /auth/logout, where a person gets a
// session or ends it. It wants these paths as they are, without the prefix.
//
// /auth/login takes a path to go on to as next=, as the browser sees it.
func (g *Guard) Login() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathLogin, g.showLogin)
	mux.HandleFunc("POST "+pathLogin, g.postLogin)
	mux.HandleFunc("GET "+pathCallback, g.callback)
	mux.HandleFunc("POST "+pathLogout, g.logout)
	protect := g.origins.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with less, a browser does not say where a form was sent from
		h.Set("Cache-Control", "no-store")
		protect.ServeHTTP(w, r)
	})
}

// showLogin shows the form, or sends the browser to the provider.
func (g *Guard) showLogin(w http.ResponseWriter, r *http.Request) {
	next := g.localPath(r.URL.Query().Get("next"))
	if g.provider == nil || r.URL.Query().Get("with") != "provider" {
		g.answer(w, http.StatusOK, next, "")
		return
	}
	if !g.tryLogin(w, r, "", next) {
		return
	}
	ctx := r.Context()
	secret := newSecret()
	l := login{
		id: sessionID(secret), state: newSecret(), nonce: newSecret(), verifier: newSecret(), next: next,
		expires: toMillis(g.now(ctx).Add(LoginLife)),
	}
	address, err := g.provider.begin(ctx, &l)
	if err == nil {
		err = g.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: l.record()}}})
	}
	if err != nil {
		g.log.Error("login not started", "error", err)
		g.answer(w, http.StatusServiceUnavailable, next, "Logging in with "+g.provider.cfg.Name+" does not work at the moment.")
		return
	}
	http.SetCookie(w, g.cookie(r, cookieLogin, secret, int(LoginLife/time.Second)))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// postLogin opens a session for who has a token.
func (g *Guard) postLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		g.answer(w, http.StatusBadRequest, g.localPath(""), "The form is not understood.")
		return
	}
	next := g.localPath(r.PostForm.Get("next"))
	if !g.tryLogin(w, r, "", next) {
		return
	}
	ctx := r.Context()
	text := strings.TrimSpace(r.PostForm.Get("token"))
	var s session
	var err error
	switch {
	case len(text) > maxCredential:
		err = malformed("the token is longer than %d bytes", maxCredential)
	case g.isAdminToken(text):
		who := adminIdentity(BySession)
		s = session{kind: ByToken, subject: who.Subject, name: who.Name, role: who.Role}
	default:
		var t Token
		t, err = g.byToken(ctx, text)
		s = session{kind: ByToken, token: t.ID, subject: t.ID, name: t.Name, role: t.Role, tenants: t.Tenants}
	}
	g.open(w, r, next, s, err)
}

// callback opens a session for who has logged in at the provider.
func (g *Guard) callback(w http.ResponseWriter, r *http.Request) {
	if g.provider == nil {
		g.answer(w, http.StatusNotFound, g.localPath(""), "There is no login elsewhere.")
		return
	}
	if !g.tryLogin(w, r, "callback/", g.localPath("")) {
		return
	}
	http.SetCookie(w, g.cookie(r, cookieLogin, "", -1))
	l, err := g.takeUp(r)
	if err != nil {
		g.open(w, r, g.localPath(""), session{}, err)
		return
	}
	next := g.localPath(l.next)
	query := r.URL.Query()
	if failure := query.Get("error"); failure != "" {
		g.open(w, r, next, session{}, fmt.Errorf("auth: the provider says %.100q: %w", failure, ErrUnknown))
		return
	}
	who, err := g.provider.finish(r.Context(), &l, query.Get("code"))
	g.open(w, r, next, session{kind: BySession, subject: who.Subject, name: who.Name, role: who.Role, tenants: who.Tenants}, err)
}

// takeUp returns the login that the browser has begun, once.
func (g *Guard) takeUp(r *http.Request) (login, error) {
	ctx := r.Context()
	gone := fmt.Errorf("auth: the login was not begun in this browser, was used, or took longer than %v; try again: %w", LoginLife, ErrUnknown)
	cookies := r.CookiesNamed(g.cookieName(r, cookieLogin))
	if len(cookies) != 1 || len(cookies[0].Value) != secretLength {
		return login{}, gone
	}
	rec, err := g.store.Get(ctx, loginKey(sessionID(cookies[0].Value)))
	if errors.Is(err, store.ErrNotFound) {
		return login{}, gone
	}
	if err != nil {
		return login{}, wrap("log in", err)
	}
	l, err := parseLogin(rec)
	if err != nil {
		return login{}, err
	}
	err = g.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: rec.Version}}})
	if errors.Is(err, store.ErrConflict) {
		return login{}, gone
	}
	if err != nil {
		return login{}, wrap("log in", err)
	}
	if !same(l.state, r.URL.Query().Get("state")) || !g.now(ctx).Before(l.expires) {
		return login{}, gone
	}
	return l, nil
}

// open starts a session and redirects to next, or answers with the error. Both are audited.
func (g *Guard) open(w http.ResponseWriter, r *http.Request, next string, s session, err error) {
	secret := ""
	if err == nil {
		secret, err = g.startSession(r.Context(), s)
	}
	if errors.Is(err, ErrUnknown) {
		_ = g.fail(g.Remote(r), err) // the next attempt is refused if there were too many
	}
	status, message := loginFailure(err)
	e := Entry{
		Subject: s.subject, Name: s.name, Kind: BySession, Remote: g.Remote(r), Operation: opLogin, Status: status,
		RequestID: w.Header().Get("X-Request-Id"),
	}
	if err != nil {
		e.Error = err.Error()
	}
	if failed := g.Note(r.Context(), e); failed != nil && err == nil {
		status, message = loginFailure(failed)
	}
	if message != "" {
		g.answer(w, status, next, message)
		return
	}
	http.SetCookie(w, g.cookie(r, cookieSession, secret, int(SessionLife/time.Second)))
	http.Redirect(w, r, next, status)
}

// loginFailure returns what a person is told.
func loginFailure(err error) (int, string) {
	switch {
	case err == nil:
		return http.StatusSeeOther, ""
	case errors.Is(err, ErrMalformed):
		return http.StatusUnauthorized, "This is not a whole token: it was cut off or mistyped."
	case errors.Is(err, ErrUnknown):
		return http.StatusUnauthorized, "This login is not known, has expired, or was revoked. Try again."
	case errors.Is(err, ErrForbidden):
		return http.StatusForbidden, "You are known, but have no role or no tenant here. Ask an operator."
	default:
		return http.StatusServiceUnavailable, "Logging in does not work at the moment. The server's log says more."
	}
}

// logout ends the session.
func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	secret, sent, err := g.sessionCookie(r)
	if err == nil && sent {
		e := Entry{Kind: BySession, Remote: g.Remote(r), Operation: opLogout, Status: http.StatusSeeOther, RequestID: w.Header().Get("X-Request-Id")}
		if s, _, err := g.session(r.Context(), secret); err == nil {
			e.Subject, e.Name = s.subject, s.name
		}
		if err := g.endSession(r.Context(), secret); err != nil {
			g.log.Error("session not ended", "error", err)
			g.answer(w, http.StatusServiceUnavailable, g.localPath(""), "Logging out does not work at the moment.")
			return
		}
		_ = g.Note(r.Context(), e) // it is in the log why not, and nobody is kept logged in for it
	}
	http.SetCookie(w, g.cookie(r, cookieSession, "", -1))
	http.Redirect(w, r, g.cfg.Prefix+pathLogin, http.StatusSeeOther)
}

// tryLogin counts an attempt to log in, and answers if there were too many. Those who come
// back from elsewhere are counted by themselves: they have been counted when they began.
func (g *Guard) tryLogin(w http.ResponseWriter, r *http.Request, what, next string) bool {
	remote := g.Remote(r)
	wait := max(g.failures.Wait(remote), g.logins.Take(what+ratelimit.Source(remote), float64(time.Second)/float64(LoginEvery), LoginBurst))
	if wait == 0 {
		return true
	}
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	g.answer(w, http.StatusTooManyRequests, next, fmt.Sprintf("Too many attempts from your address. Try again in %d seconds.", seconds))
	return false
}

// answer shows the form.
func (g *Guard) answer(w http.ResponseWriter, status int, next, message string) {
	data := struct{ Prefix, Next, Begin, Provider, Error string }{Prefix: g.cfg.Prefix, Next: next, Error: message}
	if g.provider != nil {
		data.Provider = g.provider.cfg.Name
		data.Begin = g.cfg.Prefix + pathLogin + "?" + url.Values{"with": {"provider"}, "next": {next}}.Encode()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = loginTemplate.Execute(w, data) // the browser may be gone
}

// localPath returns a path of this server to go on to: the one that was asked for, if it is
// one, or the first page. An address of another server would make people type their token
// there.
func (g *Guard) localPath(next string) string {
	home := g.cfg.Prefix + "/"
	u, err := url.Parse(next)
	switch {
	case err != nil || len(next) > maxNext:
		return home
	case u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "":
		return home
	case !strings.HasPrefix(next, home) || strings.HasPrefix(next, "//"):
		return home
	case strings.ContainsFunc(next, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }):
		return home // browsers take some of these for a slash, or for nothing
	case strings.HasPrefix(next, g.cfg.Prefix+"/auth/"):
		return home
	}
	return next
}
