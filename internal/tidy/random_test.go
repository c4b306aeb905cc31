package tidy

import (
	"go/token"
	"slices"
)

// seeded are the names of math/rand/v2 that do not use its global source.
var seeded = []string{
	"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewZipf", "PCG", "Rand", "Source", "Zipf",
}

// checkRandom finds randomness that no seed repeats. Tests and internal/bench may
// use the global source: what they draw there is not worth repeating.
func checkRandom(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		for _, spec := range s.file.Imports {
			if importPath(spec) == "math/rand" {
				found = append(found, s.at(spec.Pos(), "math/rand is imported: use math/rand/v2"))
			}
		}
		if s.isTest() || under(s.path, "internal/bench") {
			continue
		}
		if name, _ := s.importName("math/rand/v2"); name == "." {
			found = append(found, s.at(s.file.Package, "math/rand/v2 is imported as ., which hides its global source"))
		}
		s.uses("math/rand/v2", func(pos token.Pos, name string) {
			if !slices.Contains(seeded, name) {
				found = append(found, s.at(pos, "rand.%s uses the global source: take a *rand.Rand", name))
			}
		})
	}
	return found
}
