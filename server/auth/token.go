package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/abidehq/abide/store"
)

// Token is what is known of an API token. The secret is not: only its owner has it.
type Token struct {
	ID   string
	Name string
	Role Role

	// Tenants are those that it is for; nil means all.
	Tenants []string

	// Serve are the orchestrations and activities that a worker may serve with it; nil means all.
	Serve []string

	CreatedAt time.Time
	CreatedBy string    // the [Identity.Subject] of who made it
	Expires   time.Time // zero: never
	Rate      float64   // requests per second; 0: [Config.Rate]

	// UsedAt is when it was last used, to [UsedEvery]. Zero means never.
	UsedAt time.Time

	hash    [32]byte
	version int64
}

// NewToken is a request to make a token.
type NewToken struct {
	// Name is for people: what the token is for, or whose it is.
	Name string

	Role Role

	// Tenants are those that it is for. Nil means all: an empty list is an error.
	Tenants []string

	// Serve are the names of orchestrations and activities that a worker may serve with it; a name that
	// ends with * stands for all that begin so. Nil means all, and others take the role [Worker].
	Serve []string

	// Expires is when it stops working. Zero means never.
	Expires time.Time

	// Rate is how many requests per second may be made with it. 0 means [Config.Rate].
	Rate float64
}

// TokenPage is a part of the list of tokens.
type TokenPage struct {
	Tokens []Token

	// Next is the cursor of the next page, and empty if there is none. A page can have
	// fewer tokens than were asked for, or none, and still have a next one.
	Next string
}

// CreateToken makes a token, and returns what its owner must send: that is kept nowhere,
// and cannot be had again. Who asks, as the context says, must have the role admin, and
// cannot make a token that may do more than they may themselves: else it returns
// [ErrForbidden].
func (g *Guard) CreateToken(ctx context.Context, n NewToken) (t Token, secret string, err error) {
	const verb = "create token"
	who, err := admin(ctx, verb)
	if err != nil {
		return Token{}, "", err
	}
	now := g.now(ctx)
	if err := n.check(now); err != nil {
		return Token{}, "", err
	}
	if !who.covers(n.Role, n.Tenants) {
		return Token{}, "", fmt.Errorf("auth: %s: it may do more than %s may, who asks for it: %w", verb, who.Name, ErrForbidden)
	}
	count, err := g.store.Count(ctx, store.Query{Kind: kindToken, Tenant: new("")}, MaxTokens)
	if err != nil {
		return Token{}, "", wrap(verb, err)
	}
	if count >= MaxTokens {
		return Token{}, "", fmt.Errorf("auth: %s: there are %d tokens, and no more are allowed; revoke some: %w", verb, MaxTokens, ErrFull)
	}
	t = Token{
		ID: newID(), Name: n.Name, Role: n.Role, Tenants: tenantSet(n.Tenants), Serve: tenantSet(n.Serve),
		CreatedAt: toMillis(now), CreatedBy: who.Subject, Expires: toMillis(n.Expires), Rate: n.Rate, version: 1,
	}
	private := newSecret()
	t.hash = hash(private)
	if err := g.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: t.record()}}}); err != nil {
		return Token{}, "", wrap(verb, err)
	}
	return t, writeToken(t.ID, private), nil
}

// check reports whether the request keeps the rules.
func (n *NewToken) check(now time.Time) error {
	const verb = "create token"
	switch {
	case !isName(n.Name):
		return invalid(verb, "the name must have 1 to %d bytes, and be text on one line", MaxName)
	case !n.Role.known():
		return invalid(verb, "there is no role %q; allowed: %s", n.Role, roleNames())
	case n.Tenants != nil && len(n.Tenants) == 0:
		return invalid(verb, "it is for no tenant; name some, or none of them for all")
	case len(n.Tenants) > MaxTenants:
		return invalid(verb, "it is for %d tenants; at most %d are allowed, or all", len(n.Tenants), MaxTenants)
	case slices.ContainsFunc(n.Tenants, func(t string) bool { return !isName(t) }):
		return invalid(verb, "a tenant must have 1 to %d bytes, and be text on one line", MaxName)
	case !n.Expires.IsZero() && !n.Expires.After(now):
		return invalid(verb, "it expires at %v, which is in the past", n.Expires.UTC().Format(time.RFC3339))
	case n.Expires.Year() > 9999:
		return invalid(verb, "it expires after the year 9999")
	case math.IsNaN(n.Rate) || n.Rate < 0 || n.Rate > MaxRate:
		return invalid(verb, "its rate is %v; 0 to %d requests per second are allowed", n.Rate, MaxRate)
	}
	return checkServe(verb, "the token", n.Role, n.Serve)
}

// isName reports whether a name can be shown on one line, and is not too long.
func isName(s string) bool {
	return s != "" && len(s) <= MaxName && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// tenantSet returns each of the tenants once, in order; nil stays nil.
func tenantSet(tenants []string) []string {
	if tenants == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(tenants)))
}

// Tokens returns the tokens that may do no more than who asks, the latest first. Limit is
// how many at most, [DefaultPage] if it is 0. Cursor is the Next of the page before, or
// empty.
func (g *Guard) Tokens(ctx context.Context, limit int, cursor string) (TokenPage, error) {
	const verb = "list tokens"
	who, err := admin(ctx, verb)
	if err != nil {
		return TokenPage{}, err
	}
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 0 || limit > MaxPage {
		return TokenPage{}, invalid(verb, "a page of %d tokens; 1 to %d is allowed", limit, MaxPage)
	}
	page, err := g.store.List(ctx, store.Query{Kind: kindToken, Descending: true, Limit: limit, Cursor: cursor})
	if err != nil {
		return TokenPage{}, wrap(verb, err)
	}
	out := TokenPage{Next: page.Next}
	for _, rec := range page.Records {
		t, err := parseToken(rec)
		if err != nil {
			return TokenPage{}, err
		}
		if who.covers(t.Role, t.Tenants) {
			out.Tokens = append(out.Tokens, t)
		}
	}
	return out, nil
}

// RevokeToken ends a token, and the sessions of those who have logged in with it: in this
// process at once, in others within [CacheLife]. It returns [ErrNotFound] if there is no
// such token, or none that may do no more than who asks.
func (g *Guard) RevokeToken(ctx context.Context, id string) error {
	const verb = "revoke token"
	who, err := admin(ctx, verb)
	if err != nil {
		return err
	}
	if len(id) != idLength || !isLetters(id) {
		return fmt.Errorf("auth: %s: %w", verb, ErrNotFound)
	}
	rec, err := g.store.Get(ctx, tokenKey(id))
	if err != nil {
		return wrap(verb, err)
	}
	t, err := parseToken(rec)
	if err != nil {
		return err
	}
	if !who.covers(t.Role, t.Tenants) {
		return fmt.Errorf("auth: %s: %w", verb, ErrNotFound)
	}
	// The version does not matter: role and tenants of a token never change.
	err = g.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: rec.Key, Expect: store.AnyVersion}}})
	g.tokens.drop(id) // also after an error, which need not mean that it failed
	return wrap(verb, err)
}

// admin returns who asks, unless they may not.
func admin(ctx context.Context, verb string) (Identity, error) {
	who, ok := Of(ctx)
	if !ok || !who.Role.Includes(Admin) {
		return who, fmt.Errorf("auth: %s: it takes the role %s: %w", verb, Admin, ErrForbidden)
	}
	return who, nil
}

// token returns the token with an ID, from what this process knows of it, if it exists and
// has not expired.
func (g *Guard) token(ctx context.Context, id string) (Token, bool, error) {
	t, exists, err := g.tokens.get(id, func() (Token, bool, error) {
		rec, err := g.store.Get(ctx, tokenKey(id))
		if errors.Is(err, store.ErrNotFound) {
			return Token{}, false, nil
		}
		if err != nil {
			return Token{}, false, wrap("get token", err)
		}
		t, err := parseToken(rec)
		return t, err == nil, err
	})
	if err != nil {
		return Token{}, false, err
	}
	return t, exists && (t.Expires.IsZero() || g.now(ctx).Before(t.Expires)), nil
}

// byToken returns the token of a request. For an unknown ID it does the same work as for a
// wrong secret, so that the two cannot be told apart by the time.
func (g *Guard) byToken(ctx context.Context, text string) (Token, error) {
	id, secret, err := readToken(text)
	if err != nil {
		return Token{}, err
	}
	t, live, err := g.token(ctx, id)
	if err != nil {
		return Token{}, err
	}
	sum := hash(secret)
	same := subtle.ConstantTimeCompare(sum[:], t.hash[:]) == 1 // that of no token is all zeros
	if !same || !live {
		return Token{}, fmt.Errorf("auth: the token is not known, has expired, or was revoked: %w", ErrUnknown)
	}
	g.use(ctx, t)
	return t, nil
}

// use notes that a token was used, if that was not noted lately. If it cannot be noted, the
// token is good all the same.
func (g *Guard) use(ctx context.Context, t Token) {
	now := g.now(ctx)
	if now.Sub(t.UsedAt) < UsedEvery {
		return
	}
	version := t.version
	t.UsedAt = toMillis(now)
	err := g.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: t.record(), Expect: version}}})
	g.tokens.drop(t.ID)
	if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil { // a conflict: others note it, or it was revoked
		g.log.Warn("token use not recorded", "token", t.ID, "error", err)
	}
}

// identity returns who uses the token.
func (t *Token) identity(kind Kind) Identity {
	return Identity{Kind: kind, Subject: t.ID, Name: t.Name, Role: t.Role, Tenants: slices.Clone(t.Tenants), Serve: slices.Clone(t.Serve)}
}

// toMillis returns a time as it comes back from the store.
func toMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Truncate(time.Millisecond).UTC()
}
