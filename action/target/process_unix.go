//go:build unix

package target

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminate sends SIGTERM to the process group.
func (p *process) terminate() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) }

// kill kills the group.
func (p *process) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// killedBy returns the signal that ended a process, if one did.
func killedBy(s *os.ProcessState) (number int, name string, killed bool) {
	status, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, "", false
	}
	return int(status.Signal()), unix.SignalName(status.Signal()), true
}
