package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/abidehq/abide/internal/base"
)

// providerTimeout is how long a provider may take to answer.
const providerTimeout = 10 * time.Second

// OIDC is where people can log in: a provider of OpenID Connect, and what its claims mean.
// Only the claims of the ID token count.
type OIDC struct {
	// Name is what the button says: Log in with …. Empty means the host of the issuer.
	Name string

	// Issuer is the address of the provider, as it calls itself: https://login.example.com.
	Issuer string

	// ClientID and ClientSecret are what the provider knows this server by. A public client
	// has no secret. The provider must allow the address [Config.URL] + [Config.Prefix] +
	// /auth/callback to come back to.
	ClientID     string
	ClientSecret string

	// Scopes are what to ask for besides openid: profile and email, unless it says
	// otherwise.
	Scopes []string

	// RoleClaim is the claim that tells the role, and Roles which of its values stand for
	// which. Of many that match, the highest role counts. Nobody without a match gets in. A
	// dot in the name leads into an object: realm_access.roles. The claim email counts only
	// if the provider says that it has verified it.
	RoleClaim string
	Roles     map[Role][]string

	// TenantClaim is the claim that tells the tenants. If it is empty, everybody has all of
	// them. Its values are tenants, or, where Tenants has some, stand for those in there; a
	// * there stands for all. Nobody without a tenant gets in.
	TenantClaim string
	Tenants     map[string][]string

	// Client makes the requests to the provider. Nil means one with a timeout.
	Client *http.Client
}

func (o *OIDC) setDefaults(address string) error {
	const verb = "new guard"
	if o.Client == nil {
		o.Client = &http.Client{Timeout: providerTimeout}
	}
	if o.Scopes == nil {
		o.Scopes = []string{oidc.ScopeProfile, oidc.ScopeEmail}
	}
	if o.Name == "" {
		_, rest, _ := strings.Cut(o.Issuer, "://")
		o.Name, _, _ = strings.Cut(rest, "/")
	}
	switch {
	case address == "":
		return invalid(verb, "Config.URL is missing, which Config.OIDC needs to come back to")
	case !isSafeIssuer(o.Issuer):
		return invalid(verb, "OIDC.Issuer is %q; it looks like https://login.example.com: without TLS, only loopback is allowed", o.Issuer)
	case o.ClientID == "":
		return invalid(verb, "OIDC.ClientID is missing")
	case o.RoleClaim == "":
		return invalid(verb, "OIDC.RoleClaim is missing: the claim that tells the role, such as groups")
	case len(o.Roles) == 0:
		return invalid(verb, "OIDC.Roles is missing: which values of the claim stand for which role")
	case o.TenantClaim == "" && len(o.Tenants) > 0:
		return invalid(verb, "OIDC.TenantClaim is missing: OIDC.Tenants says what its values mean")
	}
	for role := range o.Roles {
		if !role.known() {
			return invalid(verb, "OIDC.Roles has role %q; allowed: %s", role, roleNames())
		}
	}
	return nil
}

// isSafeIssuer reports whether nobody on the way can pose as the provider.
func isSafeIssuer(issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

// digest returns a hash of which provider it is and what its claims mean. Sessions are good
// for as long as it stays the same.
func (o *OIDC) digest() [sha256.Size]byte {
	h := sha256.New()
	add := func(parts ...string) {
		fmt.Fprintf(h, "%d ", len(parts))
		for _, p := range parts {
			fmt.Fprintf(h, "%d:%s", len(p), p)
		}
	}
	add(o.Issuer, o.ClientID, o.RoleClaim, o.TenantClaim)
	for _, role := range Roles {
		add(append([]string{string(role)}, slices.Sorted(slices.Values(o.Roles[role]))...)...)
	}
	for _, value := range slices.Sorted(maps.Keys(o.Tenants)) {
		add(append([]string{value}, slices.Sorted(slices.Values(o.Tenants[value]))...)...)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// provider is a provider of OpenID Connect. It is asked how it works when it is first
// needed, so that a server starts while its provider is away.
type provider struct {
	cfg      OIDC
	redirect string
	clock    base.Clock

	mu    sync.Mutex
	known *oidc.Provider
}

func newProvider(cfg OIDC, redirect string, clock base.Clock) *provider {
	return &provider{cfg: cfg, redirect: redirect, clock: clock}
}

// discover returns how the provider works.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known, err := oidc.NewProvider(oidc.ClientContext(ctx, p.cfg.Client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("auth: log in with %s: %w", p.cfg.Name, err)
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return known, nil
}

func (p *provider) oauth(known *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: known.Endpoint(), RedirectURL: p.redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// begin returns where to send the browser.
func (p *provider) begin(ctx context.Context, l *login) (string, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(known).AuthCodeURL(l.state, oidc.Nonce(l.nonce), oauth2.S256ChallengeOption(l.verifier)), nil
}

// finish returns who has logged in, from the code that the browser has brought back.
func (p *provider) finish(ctx context.Context, l *login, code string) (Identity, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.cfg.Client)
	answer, err := p.oauth(known).Exchange(ctx, code, oauth2.VerifierOption(l.verifier))
	if err != nil {
		return Identity{}, fmt.Errorf("auth: the provider does not take the code: %w", exchangeError(err))
	}
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return Identity{}, fmt.Errorf("auth: the provider has sent no ID token: %w", ErrUnknown)
	}
	token, err := known.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.clock.Now}).Verify(ctx, raw)
	if err != nil {
		return Identity{}, fmt.Errorf("auth: the ID token is not good: %w: %w", err, ErrUnknown)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(l.nonce)) != 1 {
		return Identity{}, fmt.Errorf("auth: the ID token is for another login: %w", ErrUnknown)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Identity{}, fmt.Errorf("auth: the claims of the ID token are not understood: %w: %w", err, ErrUnknown)
	}
	if party, ok := claims["azp"].(string); len(token.Audience) > 1 && (!ok || party != p.cfg.ClientID) {
		return Identity{}, fmt.Errorf("auth: the ID token was made for another client: %w", ErrUnknown)
	}
	if token.Subject == "" {
		return Identity{}, fmt.Errorf("auth: the ID token has no subject: %w", ErrUnknown)
	}
	return p.cfg.identity(token.Subject, claims)
}

// exchangeError returns what the provider has answered, without what was sent or the body
// of the answer, where secrets may be.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil {
		return fmt.Errorf("status %d, %q: %w", refused.Response.StatusCode, refused.ErrorCode, ErrUnknown)
	}
	return err
}

// identity returns the identity of a user with these claims.
func (o *OIDC) identity(subject string, claims map[string]any) (Identity, error) {
	i := Identity{Kind: BySession, Subject: subject, Name: subject}
	for _, name := range []string{"email", "preferred_username", "name"} { // the last that is there
		if s, ok := claims[name].(string); ok && isName(s) {
			i.Name = s
		}
	}
	values := claim(claims, o.RoleClaim)
	for _, role := range Roles {
		if slices.ContainsFunc(o.Roles[role], func(v string) bool { return slices.Contains(values, v) }) {
			i.Role = role
		}
	}
	if i.Role == "" {
		return Identity{}, fmt.Errorf("auth: %s has no role here: none of the values of the claim %s stands for one: %w", i.Name, o.RoleClaim, ErrForbidden)
	}
	if o.TenantClaim == "" {
		return i, nil
	}
	i.Tenants = []string{}
	for _, value := range claim(claims, o.TenantClaim) {
		switch {
		case len(o.Tenants) == 0 && isName(value):
			i.Tenants = append(i.Tenants, value)
		case slices.Contains(o.Tenants[value], "*"):
			i.Tenants = nil
			return i, nil
		default:
			i.Tenants = append(i.Tenants, o.Tenants[value]...)
		}
	}
	if i.Tenants = tenantSet(i.Tenants); len(i.Tenants) == 0 {
		return Identity{}, fmt.Errorf("auth: %s has no tenant here: none of the values of the claim %s stands for one: %w", i.Name, o.TenantClaim, ErrForbidden)
	}
	if len(i.Tenants) > MaxTenants {
		return Identity{}, fmt.Errorf("auth: %s has %d tenants; at most %d are allowed, or all: %w", i.Name, len(i.Tenants), MaxTenants, ErrForbidden)
	}
	return i, nil
}

// claim returns the values of a claim: those of a list, or the one that it is.
func claim(claims map[string]any, name string) []string {
	value, ok := claims[name]
	if !ok {
		head, rest, dotted := strings.Cut(name, ".")
		inner, isObject := claims[head].(map[string]any)
		if !dotted || !isObject {
			return nil
		}
		return claim(inner, rest)
	}
	if name == "email" && claims["email_verified"] != true {
		return nil
	}
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, v := range value {
			if s, ok := v.(string); ok {
				all = append(all, s)
			}
		}
		return all
	default:
		return nil
	}
}
