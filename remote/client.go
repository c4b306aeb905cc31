package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Client talks to a server.
type Client struct {
	base string
	http *http.Client

	// reached: the server has answered before. It is worth waiting for one that has.
	reached atomic.Bool
}

// ErrUnreachable means that there is nobody to talk to at the address.
var ErrUnreachable = errors.New("server cannot be reached")

// New returns a client of the server at an address: http://host:port, https://…, or
// unix:///path/of/a/socket. It makes no connection yet.
func New(address string, opts ...Option) (*Client, error) {
	c, err := at(address)
	for i := 0; err == nil && i < len(opts); i++ {
		err = opts[i](c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// at returns a client of the server at an address.
func at(address string) (*Client, error) {
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
	return c.send(ctx, method, path, query, nil, in, out)
}

// send is call with headers.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, in, out any) (int, error) {
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
	maps.Copy(req.Header, header)
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
