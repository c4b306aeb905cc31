package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/abidehq/abide/store"
)

const (
	cookieSession = "abide_session"
	cookieLogin   = "abide_login"
)

// cookie returns a cookie that this server alone gets back. SameSite is not Strict: who
// comes back from logging in elsewhere, or follows a link in a mail, would seem to be
// logged out. Browsers do not send it with what a page of another origin posts, and
// [Guard.Identify] refuses that besides.
func (g *Guard) cookie(r *http.Request, name, value string, seconds int) *http.Cookie {
	path := g.cfg.Prefix
	if path == "" {
		path = "/"
	}
	return &http.Cookie{
		Name: g.cookieName(r, name), Value: value, Path: path, MaxAge: seconds,
		HttpOnly: true, Secure: g.secure(r), SameSite: http.SameSiteLaxMode,
	}
}

// secure reports whether the browser talks https.
func (g *Guard) secure(r *http.Request) bool { return g.https || r.TLS != nil }

// cookieName returns a name by which the browser keeps others, such as a neighbour in the
// same domain, from setting the cookie.
func (g *Guard) cookieName(r *http.Request, name string) string {
	switch {
	case !g.secure(r):
		return name
	case g.cfg.Prefix == "":
		return "__Host-" + name
	default:
		return "__Secure-" + name // __Host- would be for all paths
	}
}

// sessionCookie returns the secret of the session that a request has.
func (g *Guard) sessionCookie(r *http.Request) (secret string, sent bool, err error) {
	cookies := r.CookiesNamed(g.cookieName(r, cookieSession))
	switch {
	case len(cookies) == 0 || len(cookies) == 1 && cookies[0].Value == "":
		return "", false, nil
	case len(cookies) > 1:
		return "", false, malformed("the request has %d sessions; send one", len(cookies))
	}
	return cookies[0].Value, true, nil
}

// sessionID returns the ID of the record of a session.
func sessionID(secret string) string {
	sum := hash(secret)
	return letters.EncodeToString(sum[:])
}

// proofOf ties a session to the token of the configuration, so that it ends when that
// changes. It says nothing of the token to who does not have the session's secret.
func (g *Guard) proofOf(secret string) [32]byte {
	return sha256.Sum256([]byte(secret + " " + g.cfg.AdminToken))
}

// startSession keeps a session, and returns the secret for the cookie.
func (g *Guard) startSession(ctx context.Context, s session) (string, error) {
	secret := newSecret()
	now := g.now(ctx)
	s.id = sessionID(secret)
	s.created, s.expires = toMillis(now), toMillis(now.Add(SessionLife))
	switch {
	case s.kind != ByToken:
		s.proof = g.mapping
	case s.token == "":
		s.proof = g.proofOf(secret)
	}
	err := g.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: s.record()}}})
	return secret, wrap("start session", err)
}

// identifySession returns whose session it is. One that was opened with a token lasts no
// longer than the token, and may do what the token may. One that was opened at the provider
// ends when the configuration of the provider changes.
func (g *Guard) identifySession(ctx context.Context, secret string) (Identity, error) {
	s, live, err := g.session(ctx, secret)
	if err != nil {
		return Identity{}, err
	}
	ended := fmt.Errorf("auth: the session has ended; log in again: %w", ErrUnknown)
	if !live {
		return Identity{}, ended
	}
	switch {
	case s.kind != ByToken:
		if g.provider == nil || subtle.ConstantTimeCompare(s.proof[:], g.mapping[:]) != 1 {
			return Identity{}, ended // the provider is gone, or its claims mean something else now
		}
		i := Identity{Kind: BySession, Subject: s.subject, Name: s.name, Role: s.role, Tenants: slices.Clone(s.tenants)}
		return limited(i, g.take("person/"+s.subject, g.cfg.Rate))
	case s.token == "":
		proof := g.proofOf(secret)
		if g.cfg.AdminToken == "" || subtle.ConstantTimeCompare(proof[:], s.proof[:]) != 1 {
			return Identity{}, ended
		}
		return limited(adminIdentity(BySession), g.takeToken(&Token{ID: adminSubject}))
	}
	t, live, err := g.token(ctx, s.token)
	if err != nil {
		return Identity{}, err
	}
	if !live {
		return Identity{}, ended
	}
	g.use(ctx, t)
	return limited(t.identity(BySession), g.takeToken(&t))
}

// session returns the session with a secret, if it exists and has not ended.
func (g *Guard) session(ctx context.Context, secret string) (session, bool, error) {
	if len(secret) != secretLength || !isLetters(secret) {
		return session{}, false, nil
	}
	id := sessionID(secret)
	s, exists, err := g.sessions.get(id, func() (session, bool, error) {
		rec, err := g.store.Get(ctx, sessionKey(id))
		if errors.Is(err, store.ErrNotFound) {
			return session{}, false, nil
		}
		if err != nil {
			return session{}, false, wrap("get session", err)
		}
		s, err := parseSession(rec)
		return s, err == nil, err
	})
	if err != nil {
		return session{}, false, err
	}
	return s, exists && g.now(ctx).Before(s.expires), nil
}

// endSession removes a session.
func (g *Guard) endSession(ctx context.Context, secret string) error {
	id := sessionID(secret)
	err := g.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: sessionKey(id), Expect: store.AnyVersion}}})
	g.sessions.drop(id)
	return wrap("end session", err)
}
