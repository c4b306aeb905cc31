package daemon

import (
	"context"
	"net/http"
	"strings"
)

// outside is what a request meets first.
func (d *daemon) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Streams have deadlines of their own, and set them. Whether something is one is not
		// for the client to say: it could keep any answer waiting for ever.
		_ = http.NewResponseController(w).SetWriteDeadline(d.clock.Now().Add(answerTimeout)) // a connection can do that
		if isStream(r) {
			// Streams are not waited for when the server stops.
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(d.draining, cancel)()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// isStream reports whether a request is for a stream of events.
func isStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") || strings.HasSuffix(r.URL.Path, "/stream")
}
