package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/ratelimit"
	"github.com/abidehq/abide/store"
)

// Config is what a guard is made of.
type Config struct {
	// Store keeps tokens, sessions and the audit log. It stays the caller's.
	Store store.Store

	// Prefix is the path under which the server is mounted, as browsers see it: /abide. It
	// is empty if the server has all paths.
	Prefix string

	// URL is where browsers find the server, without the prefix: https://abide.example.com.
	// It is needed for [Config.OIDC], and behind a proxy that ends TLS, so that cookies are
	// only sent over https.
	URL string

	// Proxies are the addresses of proxies before the server. What they say in
	// X-Forwarded-For is believed; what others say there is not.
	Proxies []netip.Prefix

	// AdminToken, if not empty, is a token with the role admin that works without a record,
	// for a server that nobody has made a token for yet. At least [MinAdminToken] bytes.
	AdminToken string

	// Anonymous, if not nil, is who everybody is that shows no credentials.
	Anonymous *Identity

	// Certificates say who is who among those with a client certificate that was verified.
	// The first that matches counts; who matches none needs other credentials.
	Certificates []Certificate

	// OIDC, if not nil, is where people can log in.
	OIDC *OIDC

	// Rate is how many requests per second each token, person or certificate may make, for
	// tokens that do not have a rate of their own. 0 means any number.
	Rate float64

	// AuditRetention is how long the audit log goes back: [DefaultAuditRetention], unless it
	// says otherwise; negative means for ever.
	AuditRetention time.Duration

	// AuditRequired refuses changes that cannot be noted: an entry says what is about to be
	// done before it is done, and another one how it ended.
	AuditRequired bool

	// Logger gets what a person should know, and a line for each entry of the audit log. Nil
	// means [slog.Default].
	Logger *slog.Logger

	// Clock measures how long things take; when a token expires is up to the clock of the
	// store. Nil means the system's.
	Clock clock.Clock
}

// Guard knows who makes a request, and keeps account of what was done.
type Guard struct {
	cfg      Config
	store    store.Store
	log      *slog.Logger
	clock    base.Clock
	time     *base.Remote // the store's
	admin    [sha256.Size]byte
	https    bool // browsers come through https, whatever arrives here
	tokens   *cache[Token]
	sessions *cache[session]
	callers  *ratelimit.Buckets
	logins   *ratelimit.Buckets
	failures *ratelimit.Failures // failed proofs of identity, by address
	failed   *ratelimit.Sampler  // their lines in the log
	audit    *auditor
	provider *provider         // nil without [Config.OIDC]
	mapping  [sha256.Size]byte // of what the claims of the provider mean
	origins  *http.CrossOriginProtection
}

// New returns a guard. It makes no connection yet.
func New(cfg Config) (*Guard, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	g := &Guard{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, clock: cfg.Clock,
		admin:    sha256.Sum256([]byte(cfg.AdminToken)),
		https:    strings.HasPrefix(cfg.URL, "https://"),
		tokens:   newCache[Token](cfg.Clock),
		sessions: newCache[session](cfg.Clock),
		callers:  ratelimit.New(cfg.Clock),
		logins:   ratelimit.New(cfg.Clock),
		failures: ratelimit.NewFailures(cfg.Clock),
		failed:   ratelimit.NewSampler(cfg.Clock),
		origins:  http.NewCrossOriginProtection(),
	}
	g.time = base.NewRemote(cfg.Clock, cfg.Logger, func(ctx context.Context) (time.Time, error) {
		stats, err := cfg.Store.Stats(ctx)
		return stats.Now, err
	})
	if cfg.URL != "" {
		if err := g.origins.AddTrustedOrigin(cfg.URL); err != nil {
			return nil, invalid("new guard", "Config.URL is %q; it looks like https://abide.example.com", cfg.URL)
		}
	}
	if cfg.OIDC != nil {
		g.provider = newProvider(*cfg.OIDC, cfg.URL+cfg.Prefix+pathCallback, cfg.Clock)
		g.mapping = cfg.OIDC.digest()
	}
	g.audit = newAuditor(g)
	return g, nil
}

// Anonymous reports whether requests without credentials are let through.
func (g *Guard) Anonymous() bool { return g.cfg.Anonymous != nil }

// AuditRequired reports whether what cannot be noted must not be done.
func (g *Guard) AuditRequired() bool { return g.cfg.AuditRequired }

// now returns the store's time.
func (g *Guard) now(ctx context.Context) time.Time { return g.time.Now(ctx) }

func (c *Config) setDefaults() error {
	const verb = "new guard"
	if c.AuditRetention == 0 {
		c.AuditRetention = DefaultAuditRetention
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = base.System{}
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	switch {
	case c.Store == nil:
		return invalid(verb, "Config.Store is missing")
	case c.Prefix != "" && (!strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/")):
		return invalid(verb, "Config.Prefix is %q; it begins with a slash and does not end with one, such as /abide", c.Prefix)
	case c.URL != "" && !isOrigin(c.URL):
		return invalid(verb, "Config.URL is %q; it looks like https://abide.example.com", c.URL)
	case c.AdminToken != "" && CheckAdminToken(c.AdminToken) != nil:
		return invalid(verb, "Config.AdminToken: %v", CheckAdminToken(c.AdminToken))
	case c.Anonymous != nil && !c.Anonymous.Role.known():
		return invalid(verb, "Config.Anonymous has role %q; allowed: %s", c.Anonymous.Role, roleNames())
	case math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > MaxRate:
		return invalid(verb, "Config.Rate is %v; 0 to %d requests per second are allowed", c.Rate, MaxRate)
	case c.AuditRetention >= 0 && c.AuditRetention < MinAuditRetention:
		return invalid(verb, "Config.AuditRetention is %v; at least %v, or a negative one for ever", c.AuditRetention, MinAuditRetention)
	}
	for i := range c.Certificates {
		if err := c.Certificates[i].check(); err != nil {
			return err
		}
	}
	if c.OIDC != nil {
		return c.OIDC.setDefaults(c.URL)
	}
	return nil
}

// isOrigin reports whether an address is no more than a scheme, a host and a port.
func isOrigin(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.Path == "" &&
		u.RawQuery == "" && u.Fragment == ""
}

// CheckAdminToken reports what keeps a text from being the [Config.AdminToken]. The error
// does not show it.
func CheckAdminToken(text string) error {
	distinct := map[rune]bool{}
	for _, r := range text {
		distinct[r] = true
	}
	switch {
	case len(text) < MinAdminToken:
		return fmt.Errorf("it has %d characters; at least %d are needed, and better random ones", len(text), MinAdminToken)
	case len(text) > maxCredential:
		return fmt.Errorf("it has %d characters; at most %d are allowed", len(text), maxCredential)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it has characters that a header cannot have: letters, digits and punctuation are allowed, and no spaces")
	case len(distinct) < MinAdminVariety:
		return fmt.Errorf("it has %d different characters; at least %d are needed, and better random ones, such as openssl rand -hex 32", len(distinct), MinAdminVariety)
	}
	return nil
}
