package console

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Version is the version of the binary, as `abide version` prints it.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadVersion returns what the Go tool wrote into the binary.
func ReadVersion() Version {
	v := Version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

// WriteTable writes the version for people.
func (v Version) WriteTable(w io.Writer) error {
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
