//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuUsed returns the CPU time that this process has used so far, in user and in
// kernel mode. It reports false where that cannot be known.
func cpuUsed() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
