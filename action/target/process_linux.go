package target

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// newGroup has a process begin a group, and killed when this process dies: its action is
// then failed, or run again, and must not go on beside that. What it has started itself
// is not killed with it.
func newGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the command has ended. It is not reaped: until it is, no other
// process can get its number, which is that of the group.
func (p *process) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap takes note of how the command has ended.
func (p *process) reap() { p.err = p.cmd.Wait() }
