package remote

import "net/http"

// NewOver returns a client that makes its requests in a way of the test's own.
func NewOver(base string, h *http.Client) *Client { return &Client{base: base, http: h} }
