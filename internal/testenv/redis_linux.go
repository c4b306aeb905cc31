package testenv

import (
	"os/exec"
	"syscall"
)

// dieWithUs has a server killed when the test that started it is killed, which then
// cleans up nothing.
func dieWithUs(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
