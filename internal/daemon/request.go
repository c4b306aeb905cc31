package daemon

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// outside is what a request meets first.
func (d *daemon) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		if isStream(r) {
			_ = conn.SetWriteDeadline(time.Time{}) // of a request before on the same connection
			// Whoever is told of what happens is not waited for when the server stops.
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(d.draining, cancel)()
			r = r.WithContext(ctx)
		} else {
			_ = conn.SetWriteDeadline(d.clock.Now().Add(answerTimeout)) // a connection can do that
		}
		next.ServeHTTP(w, r)
	})
}

// isStream reports whether somebody wants to be told what happens from now on.
func isStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") || strings.HasSuffix(r.URL.Path, "/stream")
}
