package tidy

import "testing"

// rules are what holds in every Go file of the module.
var rules = []struct {
	name  string
	check func([]*source) []finding
}{
	{"imports go down", checkImports},
	{"the clock is a base.Clock", checkClock},
	{"randomness has a seed", checkRandom},
	{"exported symbols have comments", checkComments},
	{"files are short", checkLength},
	{"unwanted words are not used", checkWords},
	{"packages have comments", checkPackageComments},
}

func TestTidy(t *testing.T) {
	t.Parallel()
	tree := load(t)
	if len(tree) == 0 {
		t.Fatal("no Go files found")
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range rule.check(tree) {
				t.Errorf("%v (rule: %s)", f, rule.name)
			}
		})
	}
}
