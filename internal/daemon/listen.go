package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
)

// listen returns the listener that the service manager has handed over, or one of its own.
func listen(ctx context.Context, addr string, most int) (net.Listener, error) {
	l, err := inherited()
	if err != nil {
		return nil, err
	}
	if l != nil {
		return limit(l, most), nil
	}
	return listenTCP(ctx, addr, most)
}

func listenTCP(ctx context.Context, addr string, most int) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}}
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	return limit(l, most), nil
}

// limit has no more than that many connections be there at a time. The others wait.
func limit(l net.Listener, most int) net.Listener { return netutil.LimitListener(l, most) }

// firstInherited is the file descriptor of the first socket that is handed over.
const firstInherited = 3

// inherited returns the socket that systemd has opened for this process (socket
// activation), or nil. It stays open while the process is replaced, so that nobody who
// connects meanwhile is turned away.
func inherited() (net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if n < 1 {
		return nil, nil
	}
	if n > 1 {
		return nil, fmt.Errorf("the service manager has handed over %d sockets; one is allowed", n)
	}
	file := os.NewFile(firstInherited, "socket")
	l, err := net.FileListener(file) // which has a copy
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("take over the socket of the service manager: %w", err)
	}
	return l, nil
}

// isLocal reports whether only this machine reaches an address.
func isLocal(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// address returns the URL of a listener, under the name that it was given.
func address(scheme, configured string, l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return scheme + "://" + l.Addr().String()
	}
	host, _, err := net.SplitHostPort(configured)
	if ip, parseErr := netip.ParseAddr(host); err != nil || host == "" || parseErr == nil && ip.IsUnspecified() {
		host = "localhost" // it listens everywhere
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
