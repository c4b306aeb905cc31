package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/clock"
)

// Limits and defaults of hooks.
const (
	// MaxHooks is how many hooks a handler can have.
	MaxHooks = 10_000

	// MaxSecrets is how many secrets a verifier can have at a time. Two are enough to
	// replace one by another.
	MaxSecrets = 8

	// MaxDelivery is how long the name of a delivery may be, in bytes.
	MaxDelivery = 128

	// DefaultBody is how large a body may be, in bytes; a hook can allow up to
	// [action.MaxBody].
	DefaultBody = 1 << 20

	// DefaultRate is how many webhooks a hook takes in a second.
	DefaultRate = 100

	// DefaultReadTimeout is how long a sender may take for the body.
	DefaultReadTimeout = 30 * time.Second

	// StoreTimeout is how long a sender waits until it is told that the store is in trouble.
	StoreTimeout = 20 * time.Second

	// DefaultTolerance is by how much the time of a signature may differ from ours, either
	// way, and MaxTolerance the most that can be allowed.
	DefaultTolerance = 5 * time.Minute
	MaxTolerance     = 24 * time.Hour
)

// ErrConfig means that a handler cannot be made of a configuration. The error says which
// hook it is about, and never shows a secret.
var ErrConfig = errors.New("invalid configuration")

// Receiver stores webhooks. [action.Service] implements it.
type Receiver interface {
	// Receive returns when the webhook is durable. If its delivery was received before, it
	// returns the action of the first time, and true. It does not keep the body's slice.
	Receive(ctx context.Context, r action.Received) (action.Action, bool, error)
}

var _ Receiver = (*action.Service)(nil)

// Config configures a [Handler].
type Config struct {
	// Receiver stores the webhooks.
	Receiver Receiver

	// Hooks are the endpoints. Each has a different slug.
	Hooks []Hook

	// ReadTimeout is the timeout for reading a body. Zero means [DefaultReadTimeout].
	ReadTimeout time.Duration

	// Remote returns the address that a request comes from, with or without a port. Nil means
	// [http.Request.RemoteAddr], which is that of a proxy if there is one.
	Remote func(*http.Request) string

	// Logger receives warnings and errors that need an operator's attention. Nil means
	// [slog.Default].
	Logger *slog.Logger

	// MeterProvider receives the metrics. Nil means the global provider of OpenTelemetry.
	MeterProvider metric.MeterProvider

	// Clock tells how old a signature is, and how many webhooks came in a second. Nil
	// means the system's.
	Clock clock.Clock
}

// Hook is an endpoint for webhooks.
type Hook struct {
	// Slug is the last element of the hook's path, and the slug of its actions.
	Slug string

	// Tenant and Target are those of the actions. An empty tenant means "default".
	Tenant string
	Target string

	// Events are the types of events that become actions, such as push for [GitHub] or
	// invoice.paid for [Stripe]; others are answered with 204, logged and dropped. Empty means
	// all of them. Other verifiers know no types.
	Events []string

	// Verify says how senders prove who they are. A hook that takes webhooks from anybody
	// has none, and says so with Unverified: forgetting it must not open the door. Such a hook
	// refuses what a web page has sent, since any page could use the browser of a person who
	// reaches the hook.
	Verify     Verifier
	Unverified bool

	// MaxBody is the largest body, in bytes. Zero means [DefaultBody].
	MaxBody int

	// Rate is the largest number of webhooks per second. Zero means [DefaultRate], and a
	// negative value means no limit. Burst is the size of the token bucket; zero means twice the
	// rate. Only webhooks with a valid signature count, so that nobody else can exhaust the
	// rate. An address may send [ratelimit.MaxFailures] invalid ones per second.
	Rate  float64
	Burst int

	// Headers are the names of those that are kept with the action, besides Content-Type,
	// Content-Encoding, User-Agent and what the verifier names. Signatures and whatever
	// else opens doors cannot be among them.
	Headers []string
}

// hook is a Hook that was checked.
type hook struct {
	slug, tenant, target string

	scheme     Scheme
	unverified bool
	maxBody    int64
	limit      *rate.Limiter
	keep       []string // headers, in their canonical form
	events     []string // types that become actions; empty means all
}

// wants reports whether a webhook becomes an action, and the type of its event.
func (h *hook) wants(header http.Header, body []byte) (event string, wanted bool) {
	if h.scheme.Event == nil {
		return "", true
	}
	event = h.scheme.Event(header, body)
	return event, !slices.Contains(h.scheme.Tests, event) && (len(h.events) == 0 || slices.Contains(h.events, event))
}

// neverKept are headers that open doors: what is kept can be read by everyone who may read
// actions.
var neverKept = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Gitlab-Token",
	"Webhook-Signature", "X-Hub-Signature", "X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature",
}

// open checks a hook, and reads its secrets.
func (h *Hook) open() (*hook, error) {
	if err := action.CheckSlug(h.Slug); err != nil {
		return nil, h.wrong("%v", err)
	}
	tenant := cmp.Or(h.Tenant, action.DefaultTenant)
	if err := bus.CheckName("tenant", tenant, action.MaxTenant); err != nil {
		return nil, h.wrong("%v", err)
	}
	if err := bus.CheckName("target", h.Target, action.MaxTarget); err != nil {
		return nil, h.wrong("%v", err)
	}
	opened := &hook{slug: h.Slug, tenant: tenant, target: h.Target, maxBody: int64(h.MaxBody), events: slices.Clone(h.Events)}
	switch {
	case h.MaxBody < 0 || h.MaxBody > action.MaxBody:
		return nil, h.wrong("a body of %d bytes is to be allowed, and at most %d can be", h.MaxBody, action.MaxBody)
	case h.MaxBody == 0:
		opened.maxBody = DefaultBody
	}
	if err := h.openVerifier(opened); err != nil {
		return nil, err
	}
	if len(h.Events) > 0 && opened.scheme.Event == nil {
		return nil, h.wrong("it selects events, and its verifier knows no types of events; github and stripe do")
	}
	if err := h.openRate(opened); err != nil {
		return nil, err
	}
	return opened, h.openHeaders(opened)
}

func (h *Hook) openVerifier(opened *hook) (err error) {
	switch {
	case h.Verify != nil && h.Unverified:
		return h.wrong("it has a verifier, and is said to be unverified")
	case h.Verify == nil && !h.Unverified:
		return h.wrong("it has no verifier; one that takes webhooks from anybody must say so with Unverified")
	case h.Unverified:
		opened.scheme, opened.unverified = Scheme{Verify: trustAnybody}, true
		return nil
	}
	if opened.scheme, err = h.Verify.Open(); err != nil {
		return h.wrong("%w", err)
	}
	if opened.scheme.Verify == nil {
		return h.wrong("its verifier has no function that verifies")
	}
	return nil
}

func (h *Hook) openRate(opened *hook) error {
	limit, burst := rate.Limit(h.Rate), h.Burst
	switch {
	case math.IsNaN(h.Rate):
		return h.wrong("its rate is not a number")
	case burst < 0:
		return h.wrong("a burst of %d is to be allowed, which is negative", burst)
	case h.Rate < 0:
		limit = rate.Inf
	case h.Rate == 0:
		limit = DefaultRate
	}
	if burst == 0 {
		burst = int(max(1, min(2*limit, 1<<20)))
	}
	opened.limit = rate.NewLimiter(limit, burst)
	return nil
}

func (h *Hook) openHeaders(opened *hook) error {
	opened.keep = []string{"Content-Encoding", "Content-Type", "User-Agent"}
	hidden := slices.Clone(neverKept)
	for _, name := range opened.scheme.Hide {
		hidden = append(hidden, http.CanonicalHeaderKey(name))
	}
	for _, name := range slices.Concat(opened.scheme.Keep, h.Headers) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isHeader(name):
			return h.wrong("%.64q is not the name of a header", name)
		case slices.Contains(hidden, canonical):
			return h.wrong("header %s is to be kept, which must stay between the sender and the hook", canonical)
		case !slices.Contains(opened.keep, canonical):
			opened.keep = append(opened.keep, canonical)
		}
	}
	if n := len(opened.keep); n > action.MaxHeaders {
		return h.wrong("%d headers are to be kept, and at most %d can be", n, action.MaxHeaders)
	}
	return nil
}

// isHeader reports whether a name is one that senders give to headers.
func isHeader(name string) bool {
	for _, c := range []byte(name) {
		letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
		if !letter && c != '-' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 256
}

// wrong returns an error about a hook.
func (h *Hook) wrong(format string, args ...any) error {
	return fmt.Errorf("hook: new: hook %.64q: %w: %w", h.Slug, fmt.Errorf(format, args...), ErrConfig)
}
