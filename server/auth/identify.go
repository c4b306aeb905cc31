package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// adminSubject names the token of [Config.AdminToken].
const adminSubject = "admin"

// Identify returns who makes a request: the owner of the token in its header Authorization,
// or whoever has the session in its cookie, or the client certificate of its connection, or
// [Config.Anonymous].
//
// It returns [ErrNone] if there are no credentials, [ErrUnknown] if they are not good,
// [ErrMalformed] if they make no sense, [ErrCrossOrigin] if a page of somebody else has made
// a browser send them, and a [*RateError] if there were too many requests. Other errors are
// those of the store.
//
// A token beside a session or a certificate that a rule knows is an error, as nobody can
// say who is meant. A session beside such a certificate is not: a browser sends both on its
// own, and logging in was the later choice; once it has ended, the certificate counts again.
func (g *Guard) Identify(r *http.Request) (Identity, error) {
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
		return g.identifyToken(r.Context(), header)
	}
	if !hasSession && !hasCertificate && g.cfg.Anonymous == nil {
		return Identity{}, fmt.Errorf("auth: the request says not who makes it; send a token as Authorization: Bearer …: %w", ErrNone)
	}
	// A browser sends all of these on its own, whoever's page it shows.
	if err := g.origins.Check(r); err != nil {
		return Identity{}, fmt.Errorf("auth: the page of somebody else has sent the request: %w", ErrCrossOrigin)
	}
	if hasSession {
		i, err := g.identifySession(r.Context(), cookie)
		if !errors.Is(err, ErrUnknown) || !hasCertificate && g.cfg.Anonymous == nil {
			return i, err
		}
	}
	if hasCertificate {
		return limited(certified, g.callers.take("certificate/"+certified.Subject, g.cfg.Rate, burst(g.cfg.Rate)))
	}
	return *g.cfg.Anonymous, nil
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
	return g.callers.take("token/"+t.ID, perSecond, burst(perSecond))
}
