package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// profiles are the flags of a command that can profile itself.
type profiles struct {
	cpu, mem string
}

// addTo gives a command the flags; what of the CPU's profile is left out is said in
// the help.
func (p *profiles) addTo(cmd *cobra.Command, except string) {
	f := cmd.Flags()
	f.StringVar(&p.cpu, "cpuprofile", "", "write a profile of the CPU to this file"+except)
	f.StringVar(&p.mem, "memprofile", "", "write a profile of the memory to this file")
}

// create creates the files first, so that a bad path is found before the measuring and
// not after it. The writer of a profile that nobody wants is nil.
func (p *profiles) create() (cpu, mem io.Writer, done func() error, err error) {
	var files []*os.File
	done = func() error {
		var first error
		for _, f := range files {
			if err := f.Close(); err != nil && first == nil {
				first = fmt.Errorf("write a profile: %w", err)
			}
		}
		return first
	}
	for _, want := range []struct {
		path string
		w    *io.Writer
	}{{p.cpu, &cpu}, {p.mem, &mem}} {
		if want.path == "" {
			continue
		}
		f, err := os.Create(want.path)
		if err != nil {
			_ = done()
			return nil, nil, nil, fmt.Errorf("create a profile: %w", err)
		}
		files = append(files, f)
		*want.w = f
	}
	return cpu, mem, done, nil
}
