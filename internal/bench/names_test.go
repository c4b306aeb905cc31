package bench

import (
	"regexp"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	const n = 2000
	for _, tt := range []struct {
		order  KeyOrder
		form   *regexp.Regexp
		sorted bool
	}{
		{KeysOrdered, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), true},
		{KeysRandom, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), false},
	} {
		t.Run(string(tt.order), func(t *testing.T) {
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
