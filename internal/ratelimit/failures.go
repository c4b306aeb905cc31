package ratelimit

import (
	"net"
	"net/netip"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// MaxFailures is how many failed proofs of identity an address may make in a second, and at
// once after a while without any.
const MaxFailures = 20

// Failures limits the failed proofs of identity of an address.
type Failures struct{ buckets *Buckets }

// NewFailures returns failures that go by a clock.
func NewFailures(clock base.Clock) *Failures { return &Failures{New(clock)} }

// Wait returns how long an address has to wait before its next attempt is looked at, or 0.
func (f *Failures) Wait(remote string) time.Duration {
	return f.buckets.Wait(Source(remote), MaxFailures, MaxFailures)
}

// Add counts a failure of an address. It returns 0, or how long the address has to wait
// because it has made too many.
func (f *Failures) Add(remote string) time.Duration {
	return f.buckets.Take(Source(remote), MaxFailures, MaxFailures)
}

// Source returns the key by which an address is counted, which may have a port: for IPv6 its
// /64, which one customer of a network gets as a whole.
func Source(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return "other/" + remote
	}
	addr = addr.Unmap()
	if addr.Is6() {
		if network, err := addr.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return addr.String()
}
