//go:build unix && !linux

package testenv

import "os/exec"

// dieWithUs is possible on Linux only.
func dieWithUs(*exec.Cmd) {}
