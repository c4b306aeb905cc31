package webhookbus

import (
	"net/http"

	"github.com/abidehq/abide/internal/safehttp"
)

// ErrPrivate means that the receiver's address is not public, and not allowed either. It
// is worth another try, because the receiver's name may get another address.
var ErrPrivate = safehttp.ErrPrivate

// newTransport returns what makes connections and keeps them.
func newTransport(cfg *Config) *http.Transport {
	return safehttp.NewTransport(safehttp.Config{
		Timeout: cfg.Timeout, MaxHeader: maxAnswer, Keep: MaxConcurrency, // all requests go to one host
		AllowPrivate: cfg.AllowPrivate, AllowedPrefixes: cfg.AllowedPrefixes, TLS: cfg.TLS,
	})
}
