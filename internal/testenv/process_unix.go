//go:build unix && !linux

package testenv

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithUs is possible on Linux only.
func dieWithUs(*exec.Cmd, syscall.Signal) {}

// childrenOf returns the processes that a process has started.
func childrenOf(parent int) []int {
	var children []int
	list, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output() // without it, there are none to be found
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			children = append(children, pid)
		}
	}
	return children
}
