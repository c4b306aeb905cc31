//go:build !unix

package teststore

import (
	"os"
	"testing"
)

// Main runs the tests of a package. There are no servers to end here.
func Main(m *testing.M) { os.Exit(m.Run()) }
