package base

import (
	"os"
	"strconv"
)

// ProcessName returns the name of the host and the number of the process, for example web-1:4711.
func ProcessName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "abide"
	}
	return host + ":" + strconv.Itoa(os.Getpid())
}
