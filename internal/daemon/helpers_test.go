package daemon

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// timeless is the clock of the machine.
type timeless struct{ base.System }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func memory(t *testing.T) store.Store {
	s := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bearer sends a token with each request.
type bearer string

// RoundTrip adds the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
