package bench

import (
	"fmt"
	"runtime"
	"runtime/pprof"
)

// startProfile profiles the CPU until stop is called, if that is asked for.
func (r *run) startProfile() (stop func(), err error) {
	if r.opts.CPUProfile == nil {
		return func() {}, nil
	}
	if err := pprof.StartCPUProfile(r.opts.CPUProfile); err != nil {
		return nil, fmt.Errorf("bench: profile the CPU: %w", err)
	}
	return pprof.StopCPUProfile, nil
}

// writeMemProfile writes what was allocated and what is in use, while the store is
// still open.
func (r *run) writeMemProfile() error {
	if r.opts.MemProfile == nil {
		return nil
	}
	runtime.GC() // what is in use is known as of the last collection
	if err := pprof.Lookup("allocs").WriteTo(r.opts.MemProfile, 0); err != nil {
		return fmt.Errorf("bench: profile the memory: %w", err)
	}
	return nil
}
