package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/ratelimit"
)

// Handler receives webhooks. It can be mounted anywhere: the slug is the last element of
// the path.
type Handler struct {
	receiver    Receiver
	hooks       map[string]*hook
	readTimeout time.Duration
	log         *slog.Logger
	clock       base.Clock
	meters      *meters
	remote      func(*http.Request) string
	failures    *ratelimit.Failures // by address
	refused     *ratelimit.Sampler  // lines in the log about signatures

	noDeadline sync.Once // see setDeadline
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler. It reads all secrets, so that one which is not there is noticed
// before a webhook comes. Errors match [ErrConfig].
func New(cfg Config) (*Handler, error) {
	switch {
	case cfg.Receiver == nil:
		return nil, fmt.Errorf("hook: new: there is no receiver: %w", ErrConfig)
	case len(cfg.Hooks) > MaxHooks:
		return nil, fmt.Errorf("hook: new: there are %d hooks, at most %d are allowed: %w", len(cfg.Hooks), MaxHooks, ErrConfig)
	case cfg.ReadTimeout < 0:
		return nil, fmt.Errorf("hook: new: the time for reading is %v, which is negative: %w", cfg.ReadTimeout, ErrConfig)
	}
	h := &Handler{
		receiver: cfg.Receiver, hooks: map[string]*hook{}, readTimeout: cfg.ReadTimeout,
		log: cfg.Logger, clock: cfg.Clock,
	}
	if h.readTimeout == 0 {
		h.readTimeout = DefaultReadTimeout
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.clock == nil {
		h.clock = base.System{}
	}
	if h.remote = cfg.Remote; h.remote == nil {
		h.remote = func(r *http.Request) string { return r.RemoteAddr }
	}
	h.failures, h.refused = ratelimit.NewFailures(h.clock), ratelimit.NewSampler(h.clock)
	var err error
	if h.meters, err = newMeters(cfg.MeterProvider); err != nil {
		return nil, err
	}
	for i := range cfg.Hooks {
		opened, err := cfg.Hooks[i].open()
		if err != nil {
			return nil, err
		}
		if h.hooks[opened.slug] != nil {
			return nil, cfg.Hooks[i].wrong("there are two with that slug")
		}
		h.hooks[opened.slug] = opened
	}
	return h, nil
}

// ServeHTTP receives one webhook.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slug := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	a, outcome, err := h.serve(w, r, slug)
	h.meters.request(r.Context(), outcome)
	if err != nil {
		h.note(r, slug, outcome, err)
		refuse(w, problems[outcome])
		return
	}
	if outcome == outcomeIgnored {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	accept(w, a.ID, outcome == outcomeDuplicate)
}

// serve does what is to be done in its order: what costs least first, and nothing is kept
// of a sender who has not proved who it is. The rate of the hook is for those who have: what
// others send counts for their address.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, slug string) (action.Action, outcome, error) {
	hook := h.hooks[slug]
	if hook == nil {
		return action.Action{}, outcomeUnknown, errors.New("there is no such hook")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return action.Action{}, outcomeMethod, fmt.Errorf("the method is %.16q", r.Method)
	}
	if wait := h.failures.Wait(h.remote(r)); wait > 0 {
		retryAfter(w, wait)
		return action.Action{}, outcomeAddress, fmt.Errorf("too many failed webhooks from this address, the next one may come in %v", wait)
	}
	if hook.unverified {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			return action.Action{}, outcomeOrigin, errors.New("a web page has sent it")
		}
		if err := hook.take(w, h.clock.Now()); err != nil {
			return action.Action{}, outcomeRate, err
		}
	}
	body, outcome, err := h.read(w, r, hook.maxBody)
	if err != nil {
		return action.Action{}, outcome, err
	}
	begun := h.clock.Now()
	delivery, err := hook.scheme.Verify(r.Header, body, begun)
	if err == nil {
		err = checkDelivery(delivery)
	}
	if err != nil {
		h.failures.Add(h.remote(r))
		return action.Action{}, outcomeOf(err), err
	}
	if !hook.unverified {
		if err := hook.take(w, begun); err != nil {
			return action.Action{}, outcomeRate, err
		}
	}
	if event, wanted := hook.wants(r.Header, body); !wanted {
		h.log.Info("webhook ignored", "slug", hook.slug, "event", event, "delivery", delivery)
		return action.Action{}, outcomeIgnored, nil
	}
	a, existed, err := h.store(r.Context(), action.Received{
		Tenant: hook.tenant, Slug: hook.slug, Target: hook.target,
		Delivery: delivery, Header: h.kept(hook, r.Header), Body: body,
	})
	switch {
	case errors.Is(err, action.ErrInvalid):
		return action.Action{}, outcomeInternal, err
	case err != nil:
		w.Header().Set("Retry-After", strconv.Itoa(storeRetry))
		return action.Action{}, outcomeStore, err
	}
	h.meters.stored(r.Context(), h.clock.Now().Sub(begun))
	if existed {
		return a, outcomeDuplicate, nil
	}
	return a, outcomeAccepted, nil
}

// storeRetry is when a sender may try again after the store was in trouble, in seconds.
const storeRetry = 5

// store keeps a webhook. A sender that leaves now has sent all of it: it is kept, and if
// it is sent again, it is a duplicate.
func (h *Handler) store(ctx context.Context, r action.Received) (action.Action, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
	defer cancel()
	return h.receiver.Receive(ctx, r)
}

// take counts a webhook if the rate of the hook allows one more, and otherwise says when it
// does.
func (h *hook) take(w http.ResponseWriter, now time.Time) error {
	next := h.limit.ReserveN(now, 1)
	wait := next.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	next.CancelAt(now)
	retryAfter(w, wait)
	return fmt.Errorf("the next one may come in %v", wait)
}

func retryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// kept returns the headers that are kept. One that is too long is left out: cut, it would
// say something else.
func (h *Handler) kept(hook *hook, header http.Header) map[string]string {
	kept := make(map[string]string, len(hook.keep))
	for _, name := range hook.keep {
		values := header[name]
		if len(values) == 0 {
			continue
		}
		value := strings.Join(values, ", ")
		if len(value) > action.MaxHeader {
			h.log.Warn("webhook header too long, not kept", "slug", hook.slug, "header", name, "bytes", len(value))
			continue
		}
		kept[name] = value
	}
	return kept
}

// note logs why a webhook was refused, at a level that depends on whether an operator must act.
func (h *Handler) note(r *http.Request, slug string, o outcome, err error) {
	if len(slug) > action.MaxSlug {
		slug = slug[:action.MaxSlug]
	}
	remote := h.remote(r)
	level := slog.LevelInfo
	switch o {
	case outcomeStore, outcomeInternal:
		level = slog.LevelError
	case outcomeUnsigned, outcomeMalformed, outcomeStale, outcomeSignature, outcomeDelivery:
		h.refused.Note(func(n int) {
			h.log.Warn("webhooks refused", "slug", slug, "outcome", o, "remote", remote, "webhooks", n, "error", err)
		})
		level = slog.LevelDebug // anybody can cause them: the warning is sampled
	case outcomeUnknown, outcomeMethod, outcomeRate, outcomeAddress, outcomeOrigin:
		level = slog.LevelDebug
	}
	h.log.Log(r.Context(), level, "webhook refused", "slug", slug, "outcome", o, "remote", remote, "error", err)
}
