//go:build unix && !linux

package target

import "syscall"

// newGroup has a process begin a group.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns when the command has ended, and takes note of how it has.
func (p *process) awaitExit() { p.err = p.cmd.Wait() }

// reap has nothing left to do.
func (*process) reap() {}
