package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

// Client talks to a server.
type Client struct {
	base string
	http *http.Client
}

// ErrUnreachable means that there is nobody to talk to at the address.
var ErrUnreachable = errors.New("server cannot be reached")

// New returns a client of the server at an address: http://host:port, https://…, or
// unix:///path/of/a/socket. It makes no connection yet.
func New(address string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("remote: malformed address; it looks like http://127.0.0.1:7171 or unix:///var/run/abide.sock")
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, fmt.Errorf("remote: address %q has no host", u.Redacted())
		}
		return &Client{base: strings.TrimSuffix(address, "/"), http: &http.Client{}}, nil
	case "unix":
		path := u.Host + u.Path // a relative path has its first element where a host stands
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
		return &Client{base: "http://abide", http: &http.Client{Transport: transport}}, nil
	default:
		return nil, fmt.Errorf("remote: unknown scheme in address %q; http, https and unix are known", u.Redacted())
	}
}

// Close closes the connections that are kept for later.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Actions returns the server's actions and schedules.
func (c *Client) Actions() *Actions { return &Actions{c} }

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 20

// call makes a request, and reads the answer into out, unless that is nil. It returns the
// status.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("remote: %w", err)
		}
		body = bytes.NewReader(data)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, fmt.Errorf("remote: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, fmt.Errorf("remote: %w: %w", err, ErrUnreachable)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("remote: read the answer: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.StatusCode, failure(resp.StatusCode, data)
	}
	switch out := out.(type) {
	case nil:
	case *[]byte:
		*out = data
	default:
		if err := json.Unmarshal(data, out); err != nil {
			return resp.StatusCode, fmt.Errorf("remote: the answer to %s %s is not understood: %w", method, path, err)
		}
	}
	return resp.StatusCode, nil
}

// sentinels are the errors that problems stand for.
var sentinels = map[string]error{
	api.CodeNotFound: action.ErrNotFound,
	api.CodeExists:   action.ErrExists,
	api.CodeState:    action.ErrState,
	api.CodeConflict: action.ErrConflict,
	api.CodeInvalid:  action.ErrInvalid,
	api.CodeTooLarge: action.ErrInvalid,
}

// failure returns the error that an answer stands for: the one that the server met.
func failure(status int, data []byte) error {
	var p api.Problem
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return fmt.Errorf("remote: the server answered %d %s", status, http.StatusText(status))
	}
	if is := sentinels[p.Code]; is != nil {
		return &problem{p, is}
	}
	return &p
}

// problem is what a server said, and matches the error that it met.
type problem struct {
	api.Problem
	is error
}

func (p *problem) Unwrap() error { return p.is }

// where returns the path of something of a tenant.
func where(kind, tenant, id string, verb ...string) string {
	return "/api/v1/" + strings.Join(append([]string{kind, url.PathEscape(tenant), url.PathEscape(id)}, verb...), "/")
}
