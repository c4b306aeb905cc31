// Package testenv is what tests take from the environment in which they are run.
package testenv

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"testing"
)

// Long reports whether tests may take their time.
func Long() bool { return os.Getenv("ABIDE_TEST_LONG") != "" }

// Seed returns the seed of a test: that of ABIDE_SEED, or another one each time. A test
// that fails says which one it was.
func Seed(t testing.TB) uint64 {
	t.Helper()
	var random [8]byte
	rand.Read(random[:])
	seed := binary.LittleEndian.Uint64(random[:])
	if text := os.Getenv("ABIDE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ABIDE_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run it again with ABIDE_SEED=%d", seed)
		}
	})
	return seed
}
