package workers

import (
	"log/slog"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/ratelimit"
)

const (
	// refusalRate is how many lines a second there are about the refusals of an address, and refusalBurst how many at
	// once.
	refusalRate  = 1
	refusalBurst = 20

	// sameRefusalRate is that of one reason: a worker that tries again is logged once a minute.
	sameRefusalRate = 1.0 / 60
)

// refusals log what is refused: connections, sessions and requests. Outsiders cause them at will, so that their lines
// are limited for each address, and for each reason of an address.
type refusals struct {
	log     *slog.Logger
	buckets *ratelimit.Buckets
}

func newRefusals(log *slog.Logger, c clock.Clock) *refusals { return &refusals{log, ratelimit.New(c)} }

// note logs that something of a peer was refused.
func (r *refusals) note(what, remote string, why error, more ...any) {
	source := ratelimit.Source(remote)
	if r.buckets.Take(source+" "+what+" "+why.Error(), sameRefusalRate, 1) > 0 || r.buckets.Take(source, refusalRate, refusalBurst) > 0 {
		return
	}
	r.log.Warn(what, append([]any{"remote", remote, "error", why}, more...)...)
}
