package pgstore

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is the number of the option TCP_USER_TIMEOUT: after so many milliseconds
// in which nothing that was sent is acknowledged, a connection is lost.
const tcpUserTimeout = 18

func control(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(stalled.Milliseconds()))
	}); err != nil {
		return err
	}
	return failed
}
