package remote

import (
	"net/http"

	"github.com/abidehq/abide/internal/dial"
)

// NewOver returns a client that makes its requests in a way of the test's own.
func NewOver(base string, h *http.Client) *Client { return &Client{base: base, http: h} }

// HelloOf is what a worker says of itself.
var HelloOf = helloOf

// Program is what a worker runs.
type Program = dial.Program
