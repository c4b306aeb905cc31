package bench

import (
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
)

// startProfile profiles the CPU until stop is called, unless w is nil.
func startProfile(w io.Writer) (stop func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		return nil, fmt.Errorf("bench: profile the CPU: %w", err)
	}
	return pprof.StopCPUProfile, nil
}

// writeMemProfile writes what was allocated and what is in use, unless w is nil. The
// store should still be open.
func writeMemProfile(w io.Writer) error {
	if w == nil {
		return nil
	}
	runtime.GC() // what is in use is known as of the last collection
	if err := pprof.Lookup("allocs").WriteTo(w, 0); err != nil {
		return fmt.Errorf("bench: profile the memory: %w", err)
	}
	return nil
}
