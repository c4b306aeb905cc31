package tidy

import (
	"go/token"
	"slices"
)

// clockFuncs are the functions of package time that read the wall clock or wait
// for it.
var clockFuncs = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick",
}

// realTime lists who may use them, and why. Everybody else takes a base.Clock.
var realTime = []struct{ folder, why string }{
	{"internal/base", "this is where the clock is"},
	{"internal/bench", "it measures the real machine"},
	{"internal/check", "tests give up at last on what never comes"},
	{"internal/rig", "tests read the clock of their bubble"},
	{"cmd", "it runs on the real machine"},
	{"examples", "users read the clock of their machine"},
}

// checkClock finds the wall clock where a base.Clock belongs. Tests may read it, in
// a synctest bubble or to give up at last on what never comes, but they never
// sleep: they wait for what they want to see.
func checkClock(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		if name, _ := s.importName("time"); name == "." {
			found = append(found, s.at(s.file.Package, "package time is imported as ., which hides the clock"))
		}
		s.uses("time", func(pos token.Pos, name string) {
			switch {
			case s.isTest() && name == "Sleep":
				found = append(found, s.at(pos, "a test must not call time.Sleep: wait for the condition"))
			case !s.isTest() && slices.Contains(clockFuncs, name) && !mayUseRealTime(s.path):
				found = append(found, s.at(pos, "time.%s is used outside internal/base: take a base.Clock", name))
			}
		})
	}
	return found
}

func mayUseRealTime(name string) bool {
	for _, a := range realTime {
		if under(name, a.folder) {
			return true
		}
	}
	return false
}
