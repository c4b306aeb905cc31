//go:build !linux

package pgstore

import "syscall"

// control does nothing: without the option that Linux has, a network that has gone silent
// while we send is noticed when the time of the call is over.
func control(_, _ string, _ syscall.RawConn) error { return nil }
