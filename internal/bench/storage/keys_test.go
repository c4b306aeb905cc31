package storage

import (
	"regexp"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	const n = 2000
	for _, tt := range []struct {
		order  string
		form   *regexp.Regexp
		sorted bool
	}{
		{keysOrdered, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), true},
		{keysRandom, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), false},
	} {
		t.Run(tt.order, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, s := range []stream{pendingKeys, instanceKeys, consumedKeys, probeKeys} {
				var names []string
				for i := range n {
					name := s.name(tt.order, i)
					if !tt.form.MatchString(name) {
						t.Fatalf("%q is not a UUID of that version", name)
					}
					if seen[name] {
						t.Fatalf("%q comes twice", name)
					}
					seen[name] = true
					names = append(names, name)
				}
				if slices.IsSorted(names) != tt.sorted {
					t.Errorf("sorted is %t, want %t", !tt.sorted, tt.sorted)
				}
				if again := s.name(tt.order, 7); again != names[7] {
					t.Errorf("name 7 is %q at first and %q again", names[7], again)
				}
			}
		})
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	var sum int64
	for round := range 3 {
		sum += share(100, round, 3)
	}
	if sum != 100 {
		t.Errorf("three shares of 100 are %d", sum)
	}
	if share(0, 1, 3) != 0 {
		t.Error("a share of no limit is a limit")
	}
}
