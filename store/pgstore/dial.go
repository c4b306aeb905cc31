package pgstore

import (
	"context"
	"net"
	"time"
)

// stalled is how long a network may be silent before a connection counts as lost.
const stalled = 15 * time.Second

// dial connects in such a way that a network which has gone silent is noticed: by probes
// while we wait for an answer, and by what is not acknowledged while we send.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3},
		Control:         control,
	}
	return d.DialContext(ctx, network, address)
}
