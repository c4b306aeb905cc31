package engine

import (
	"runtime/debug"
	"strings"
)

// MaxBuild is the largest length of a build ID, in bytes.
const MaxBuild = 128

// ProgramBuild returns the build ID of this program: the revision of its source, with
// "+dirty" if the source had changes that were not committed, or the version of its main
// module. It is empty if the program was built with neither, as tests are.
func ProgramBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) string {
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	build := revision + dirty
	if revision == "" {
		build = strings.TrimSuffix(info.Main.Version, "(devel)")
	}
	return build[:min(len(build), MaxBuild)]
}
