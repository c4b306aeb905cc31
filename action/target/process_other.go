//go:build !unix

package target

import (
	"os"
	"syscall"
)

// newGroup does nothing special: there are no groups.
func newGroup() *syscall.SysProcAttr { return nil }

// terminate kills the command: there is no way to tell it something.
func (p *process) terminate() { p.kill() }

// kill kills the command.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

func killedBy(*os.ProcessState) (number int, name string, killed bool) { return 0, "", false }

// awaitExit returns when the command has ended, and takes note of how it has.
func (p *process) awaitExit() { p.err = p.cmd.Wait() }

// reap has nothing left to do.
func (*process) reap() {}
