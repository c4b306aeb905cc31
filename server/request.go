package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/abidehq/abide/server/auth"
)

// request is what is known of a request besides what its handler gets.
type request struct {
	id      string
	method  string
	path    string // without the prefix
	escaped string // the same, as it was sent
	remote  string

	// operation is that of the API which the request is for, or empty.
	operation string

	// key is that of the header Idempotency-Key, or empty.
	key string

	// query is what stands behind the path.
	query string

	// who makes it, once that is known. Told means that the program that mounts the server, or
	// the socket that it came through, has set it.
	who  auth.Identity
	told bool

	// noted means that it is in the audit log.
	noted bool

	// tenants are those that it is about, as far as its path does not say.
	tenants []string
}

// tenant returns the one tenant that the request is about, or nothing.
func (q *request) tenant() string {
	if len(q.tenants) == 1 {
		return q.tenants[0]
	}
	return ""
}

// about notes that the request is about a tenant, which the caller may not have access to.
func (q *request) about(tenant string) {
	if !slices.Contains(q.tenants, tenant) {
		q.tenants = append(q.tenants, tenant)
	}
}

type requestKey struct{}

func withRequest(ctx context.Context, r *request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{}
}

const (
	// headerRequestID is the header with the ID of a request, both ways.
	headerRequestID = "X-Request-Id"

	// maxRequestID is how long an ID may be that a client gives to its request.
	maxRequestID = 64
)

// newRequest returns what is known of a request. A client that names its request is told
// by that name from others, if it is a sensible one.
func newRequest(r *http.Request) *request {
	q := &request{id: r.Header.Get(headerRequestID), method: r.Method, path: r.URL.Path, escaped: r.URL.EscapedPath(), query: r.URL.RawQuery, remote: r.RemoteAddr}
	if !isRequestID(q.id) {
		q.id = rand.Text()
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		q.remote = host
	}
	return q
}

func isRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// idempotentID returns an ID for what a request makes, the same one each time that the same
// caller sends the same Idempotency-Key. Without that header it is empty.
//
// It holds where the kept answer does not: when the server died after it had made the
// thing, and before it had kept the answer.
func idempotentID(ctx context.Context) string {
	q := requestOf(ctx)
	if q.key == "" {
		return ""
	}
	who, _ := auth.Of(ctx)
	sum := sha256.Sum256([]byte(caller(&who) + "\x00" + q.path + "\x00" + q.key))
	return "key-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// isLocalHost reports whether the Host of a request is one that only this machine is
// reached by. A page of another origin, whose name was made to point here, has another one.
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
