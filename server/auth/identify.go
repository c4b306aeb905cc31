package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
)

// adminSubject names the token of [Config.AdminToken].
const adminSubject = "admin"

// Identify returns who makes a request: the owner of the token in its header Authorization,
// or that of the session in its cookie, or of the client certificate of its connection, or
// [Config.Anonymous].
//
// It returns [ErrNone] if there are no credentials, [ErrUnknown] if they are not good,
// [ErrMalformed] if they make no sense, [ErrCrossOrigin] if a page of another origin has made
// a browser send them, and a [*RateError] if there were too many requests. Other errors are
// those of the store.
//
// A token beside a session or a certificate that a rule knows is an error, as nobody can
// say who is meant. A session beside such a certificate is not: a browser sends both on its
// own, and logging in was the later choice; once it has ended, the certificate counts again.
//
// An address has [ratelimit.MaxFailures] failed proofs a second. Beyond that it gets a
// [*RateError] before anything is read from the store, unless it shows a secret of 256 bits
// that this process has found to be good before: guessing does not lead there, and others who
// share the address are not locked out.
func (g *Guard) Identify(r *http.Request) (Identity, error) {
	i, err := g.identify(r)
	if errors.Is(err, ErrUnknown) {
		return i, g.fail(g.Remote(r), err)
	}
	return i, err
}

// Still reports whether a request with the same credentials would come from the same
// identity, with the same role, tenants and names. A store that does not answer, or a rate that is
// used up, does not make it another one.
func (g *Guard) Still(r *http.Request, who Identity) bool {
	now, err := g.identify(r)
	if err != nil {
		return !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNone) && !errors.Is(err, ErrForbidden)
	}
	return now.Kind == who.Kind && now.Subject == who.Subject && now.Role == who.Role && sameNames(now.Tenants, who.Tenants) &&
		sameNames(now.Serve, who.Serve)
}

// sameNames reports whether two lists are the same; nil means all.
func sameNames(a, b []string) bool { return slices.Equal(a, b) && (a == nil) == (b == nil) }

// fail counts a failed proof of identity, and returns err, or that there were too many.
func (g *Guard) fail(remote string, err error) error {
	g.failed.Note(func(n int) {
		g.log.Warn("authentication failed", "remote", remote, "failures", n, "error", err)
	})
	if wait := g.failures.Add(remote); wait > 0 {
		return &RateError{After: wait, Failures: true}
	}
	return err
}

// attempt returns an error if an address has failed too often.
func (g *Guard) attempt(remote string) error {
	if wait := g.failures.Wait(remote); wait > 0 {
		g.failed.Note(func(n int) {
			g.log.Warn("authentication failed", "remote", remote, "failures", n, "error", "too many failed attempts from this address")
		})
		return &RateError{After: wait, Failures: true}
	}
	return nil
}

func (g *Guard) identify(r *http.Request) (Identity, error) {
	header, sent, err := bearer(r)
	if err != nil {
		return Identity{}, err
	}
	cookie, hasSession, err := g.sessionCookie(r)
	if err != nil {
		return Identity{}, err
	}
	certified, hasCertificate := g.byCertificate(r, g.now(r.Context()))
	if sent {
		switch {
		case hasSession:
			return Identity{}, malformed("the request has a token and a session; send one of them")
		case hasCertificate:
			return Identity{}, malformed("the request has a token and a client certificate that says who it is; send one of them")
		}
		if !g.knowsToken(header) {
			if err := g.attempt(g.Remote(r)); err != nil {
				return Identity{}, err
			}
		}
		return g.identifyToken(r.Context(), header)
	}
	if !hasSession && !hasCertificate && g.cfg.Anonymous == nil {
		return Identity{}, fmt.Errorf("auth: the request says not who makes it; send a token as Authorization: Bearer …: %w", ErrNone)
	}
	// A browser sends all of these on its own, for a page of any origin.
	if err := g.origins.Check(r); err != nil {
		return Identity{}, fmt.Errorf("auth: a page of another origin has sent the request: %w", ErrCrossOrigin)
	}
	if hasSession {
		i, err := g.attemptSession(r, cookie)
		_, tooMany := errors.AsType[*RateError](err)
		switch fallback := hasCertificate || g.cfg.Anonymous != nil; {
		case !fallback || err != nil && !tooMany && !errors.Is(err, ErrUnknown), err == nil:
			return i, err
		case !tooMany:
			_ = g.fail(g.Remote(r), err) // the request continues without the session
		}
	}
	if hasCertificate {
		return limited(certified, g.take("certificate/"+certified.Subject, g.cfg.Rate))
	}
	return *g.cfg.Anonymous, nil
}

// attemptSession returns whose session it is, unless the address has failed too often.
func (g *Guard) attemptSession(r *http.Request, cookie string) (Identity, error) {
	if _, known := g.sessions.last(sessionID(cookie)); !known {
		if err := g.attempt(g.Remote(r)); err != nil {
			return Identity{}, err
		}
	}
	return g.identifySession(r.Context(), cookie)
}

// knowsToken reports whether this process has found a token in the store with that secret.
func (g *Guard) knowsToken(text string) bool {
	id, secret, err := readToken(text)
	if err != nil {
		return false
	}
	t, known := g.tokens.last(id)
	sum := hash(secret)
	return known && subtle.ConstantTimeCompare(sum[:], t.hash[:]) == 1
}

// limited returns nobody if there is an error.
func limited(i Identity, err error) (Identity, error) {
	if err != nil {
		return Identity{}, err
	}
	return i, nil
}

// bearer returns the token in the header Authorization.
func bearer(r *http.Request) (token string, sent bool, err error) {
	values := r.Header.Values("Authorization")
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, malformed("the request has %d headers Authorization; send one", len(values))
	case len(values[0]) > maxCredential:
		return "", false, malformed("the header Authorization is longer than %d bytes", maxCredential)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", false, malformed("the scheme of the header Authorization is not known; send Bearer and a token")
	case token == "":
		return "", false, malformed("the header Authorization has no token; send Bearer and a token")
	case strings.ContainsAny(token, " ,\t"):
		return "", false, malformed("the header Authorization has more than one token")
	}
	return token, true, nil
}

func (g *Guard) identifyToken(ctx context.Context, text string) (Identity, error) {
	if g.isAdminToken(text) {
		return limited(adminIdentity(ByToken), g.takeToken(&Token{ID: adminSubject}))
	}
	t, err := g.byToken(ctx, text)
	if err != nil {
		return Identity{}, err
	}
	return limited(t.identity(ByToken), g.takeToken(&t))
}

// isAdminToken compares with the token of the configuration, in a time that does not depend
// on what either is.
func (g *Guard) isAdminToken(text string) bool {
	sum := sha256.Sum256([]byte(text))
	same := subtle.ConstantTimeCompare(sum[:], g.admin[:]) == 1
	return same && g.cfg.AdminToken != ""
}

func adminIdentity(kind Kind) Identity {
	return Identity{Kind: kind, Subject: adminSubject, Name: "admin", Role: Admin}
}

// takeToken counts a request with a token. Those of sessions that were opened with it
// count as well: else a token had as many requests as it has sessions.
func (g *Guard) takeToken(t *Token) error {
	perSecond := t.Rate
	if perSecond == 0 {
		perSecond = g.cfg.Rate
	}
	return g.take("token/"+t.ID, perSecond)
}

// take counts a request of a caller, or returns a [*RateError] if there were too many. A rate
// of 0 means any number.
func (g *Guard) take(caller string, perSecond float64) error {
	if wait := g.callers.Take(caller, perSecond, max(Burst, int(math.Ceil(perSecond)))); wait > 0 {
		return &RateError{After: wait}
	}
	return nil
}
