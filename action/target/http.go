package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/safehttp"
)

// ErrPrivate means that the receiver's address is not public, and not allowed either. It is
// worth another try, because the receiver's name may get another address.
var ErrPrivate = safehttp.ErrPrivate

// HTTPConfig configures an [HTTP] target.
type HTTPConfig struct {
	// Method is the method: POST, GET, PUT, PATCH or DELETE. Empty means POST. GET has no body.
	Method string

	// URL gets the requests. It is a template in its path and its query, where what
	// placeholders stand for is escaped. It begins with https://, or with http:// if
	// AllowHTTP is set. A user and password in it become a header of basic authentication.
	URL       string
	AllowHTTP bool

	// Header is sent with each request, such as Authorization. It cannot hold the headers
	// that the body, Idempotency-Key or HTTP itself needs.
	Header http.Header

	// AllowPrivate allows all addresses, AllowedPrefixes these in addition to the public
	// ones.
	AllowPrivate    bool
	AllowedPrefixes []netip.Prefix

	// TLS is for receivers with a certificate of their own, or that ask for one. Nil means
	// the authorities that the system trusts.
	TLS *tls.Config
}

// HTTP sends a request. An answer of 2xx means that the action has completed. The exit
// code is the status of the answer, and the output its body, up to a limit.
//
// The input is the body, with the content type and encoding of the webhook, or as
// application/json. Idempotency-Key is made of the tenant and the ID of the action: it is
// the same for each attempt, so that a receiver can do a thing once.
//
// Redirects are not followed, proxies of the environment are not used, and addresses that
// are not public are refused unless they are allowed. A request is sent once for each
// attempt, on a connection of its own.
type HTTP struct {
	method      string
	path, query template // the path with all before it, and the query with its question mark
	receiver    string   // in errors: the rest of the URL may be secret
	header      http.Header
	transport   *http.Transport
}

var _ action.Target = (*HTTP)(nil)

const (
	connectTimeout  = 30 * time.Second
	maxAnswer       = action.MaxOutput // bytes of the body that are read
	maxAnswerHeader = 64 << 10
)

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// NewHTTP returns a target that makes no connection yet. An error matches
// [action.ErrInvalid].
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	if cfg.Method == "" {
		cfg.Method = http.MethodPost
	}
	if !slices.Contains(methods, cfg.Method) {
		return nil, invalid("HTTPConfig.Method", "is %q; %s are allowed", cfg.Method, strings.Join(methods, ", "))
	}
	for i, p := range cfg.AllowedPrefixes {
		if err := safehttp.CheckPrefix(p); err != nil {
			return nil, invalid(element("HTTPConfig.AllowedPrefixes", i), "is not allowed: %v", err)
		}
	}
	header, err := safehttp.Header(cfg.Header, "Idempotency-Key")
	if err != nil {
		return nil, invalid("HTTPConfig.Header", "is not allowed: %v", err)
	}
	h := &HTTP{
		method: cfg.Method, header: header,
		transport: safehttp.NewTransport(safehttp.Config{
			Timeout: connectTimeout, MaxHeader: maxAnswerHeader,
			AllowPrivate: cfg.AllowPrivate, AllowedPrefixes: slices.Clone(cfg.AllowedPrefixes), TLS: cfg.TLS,
		}),
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "abide")
	}
	if err := h.parse(&cfg); err != nil {
		return nil, err
	}
	return h, nil
}

// parse reads the URL. In a mistyped URL any part may hold the secret, so an error shows none
// of them.
func (h *HTTP) parse(cfg *HTTPConfig) error {
	const field = "HTTPConfig.URL"
	allowed := "it must look like https://host/path/{slug}?id={id}"
	if !cfg.AllowHTTP {
		allowed += "; AllowHTTP allows http://"
	}
	scheme, rest, _ := strings.Cut(cfg.URL, "://")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	switch {
	case cfg.URL == "":
		return invalid(field, "is empty; %s", allowed)
	case strings.ContainsAny(scheme+authority, "{}"):
		return invalid(field, "has a brace before its path; placeholders are allowed in the path and the query")
	case scheme != "https" && (scheme != "http" || !cfg.AllowHTTP):
		return invalid(field, "has a scheme that is not allowed; %s", allowed)
	case strings.Contains(path, "#"):
		return invalid(field, "has a #, and what follows it is never sent; %s", allowed)
	}
	origin, err := url.Parse(scheme + "://" + authority)
	if err != nil || origin.Hostname() == "" {
		return invalid(field, "is not a URL with a host; %s", allowed)
	}
	path, query, asks := strings.Cut(path, "?")
	if h.path, err = parseTemplate(field, path); err != nil {
		return invalid(field, "has a placeholder that does not exist, or a brace that stands alone; %s", allowed)
	}
	if h.query, err = parseTemplate(field, query); err != nil {
		return invalid(field, "has a placeholder that does not exist, or a brace that stands alone; %s", allowed)
	}
	h.receiver = scheme + "://" + origin.Host
	h.path = append(template{{text: h.receiver}}, h.path...)
	if asks {
		h.query = append(template{{text: "?"}}, h.query...)
	}
	if _, err := h.url(&action.Action{Slug: "s", ID: "i", Tenant: "t"}); err != nil {
		return invalid(field, "is not a URL, or has . or .. in its path; %s", allowed)
	}
	return h.authenticate(origin.User)
}

// authenticate makes a header of the user of the URL.
func (h *HTTP) authenticate(user *url.Userinfo) error {
	if user == nil {
		return nil
	}
	if h.header.Get("Authorization") != "" {
		return invalid("HTTPConfig.Header", "has Authorization, and the URL has a user; one of them is allowed")
	}
	password, _ := user.Password()
	r := http.Request{Header: h.header}
	r.SetBasicAuth(user.Username(), password)
	return nil
}

var errDots = errors.New("a placeholder makes a part of the path . or .., which leads elsewhere")

// url returns the URL for an action.
func (h *HTTP) url(a *action.Action) (*url.URL, error) {
	path := h.path.expand(a, url.PathEscape)
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err == nil && (plain == "." || plain == "..") {
			return nil, fmt.Errorf("%w: %w", errDots, action.ErrInvalid)
		}
	}
	return url.Parse(path + h.query.expand(a, url.QueryEscape))
}

// Run sends the request.
func (h *HTTP) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	out, err := h.run(ctx, &r)
	if err != nil {
		return out, fmt.Errorf("target: %s %s: %w", h.method, h.receiver, err)
	}
	return out, nil
}

func (h *HTTP) run(ctx context.Context, r *action.Run) (out action.Outcome, err error) {
	req, err := h.request(ctx, r)
	if err != nil {
		return out, err
	}
	// The transport and not a client: that would follow redirects, and put the URL into
	// its errors.
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		return out, caused(ctx, err)
	}
	defer resp.Body.Close()
	out.ExitCode = resp.StatusCode
	body := newExcerpt(keep)
	n, err := io.Copy(body, io.LimitReader(resp.Body, maxAnswer+1)) // one more shows that there is more
	body.fill(&out)
	if resp.ContentLength > n {
		out.Cut += resp.ContentLength - n
	}
	switch {
	case ctx.Err() != nil:
		return out, caused(ctx, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return out, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	default:
		return out, nil // a body that breaks off changes nothing about it
	}
}

// caused returns why ctx ended, if it did.
func caused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (h *HTTP) request(ctx context.Context, r *action.Run) (*http.Request, error) {
	u, err := h.url(&r.Action)
	if err != nil {
		return nil, err
	}
	req := &http.Request{Method: h.method, URL: u, Header: h.header.Clone()}
	req.Header.Set("Idempotency-Key", url.PathEscape(r.Action.Tenant)+"/"+url.PathEscape(r.Action.ID))
	if body := raw(r); len(body) > 0 && h.method != http.MethodGet {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		describe(req.Header, &r.Action.Trigger)
	}
	return req.WithContext(ctx), nil
}

// describe sets the headers that say what a body is.
func describe(header http.Header, t *action.Trigger) {
	if t.Kind != action.Webhook {
		header.Set("Content-Type", "application/json")
		return
	}
	header.Set("Content-Type", "application/octet-stream")
	for name, value := range t.Header {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Content-Type", "Content-Encoding":
			header.Set(name, value)
		}
	}
}
