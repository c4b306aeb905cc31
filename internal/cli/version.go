package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version says what a binary was built from.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}
			v := readVersion()
			return out.print(cmd.OutOrStdout(), v, v.writeTable)
		},
	}
	out.addTo(cmd)
	return cmd
}

// readVersion returns what the Go tool wrote into the binary.
func readVersion() version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) writeTable(w io.Writer) error {
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit
	}
	if v.Modified {
		commit += " modified"
	}
	_, err := fmt.Fprintf(w, "abide %s%s %s %s\n", v.Version, commit, v.Go, v.Platform)
	return err
}
