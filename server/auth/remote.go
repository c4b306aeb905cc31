package auth

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Remote returns the address that a request comes from, without a port. Behind one of
// [Config.Proxies] it is the last address in X-Forwarded-For that is not one of them.
func (g *Guard) Remote(r *http.Request) string {
	remote := r.RemoteAddr
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil || !g.isProxy(addr) {
		return remote
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = before
		if !g.isProxy(addr) {
			break
		}
	}
	return addr.Unmap().String()
}

func (g *Guard) isProxy(addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(g.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// same compares secrets in a time that does not depend on where they differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
