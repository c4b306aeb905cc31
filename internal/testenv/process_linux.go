package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithUs has a server get a signal when the test that started it is killed, which
// then cleans up nothing.
func dieWithUs(c *exec.Cmd, ending syscall.Signal) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = ending
}

// childrenOf returns the processes that a process has started and that have not ended.
func childrenOf(parent int) []int {
	var children []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name of the program is in parentheses and may hold anything; its state and
		// its parent follow.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[0]) == "Z" || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}
