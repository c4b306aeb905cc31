//go:build unix

package socket

import "syscall"

// onlyOwner has a socket be its owner's alone from the moment it is there, where the system
// can do that.
func onlyOwner(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
