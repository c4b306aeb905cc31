package replay

import (
	"maps"
	"slices"

	"github.com/abidehq/abide/internal/history"
)

// Scope is what is cancelled together: everything that was asked for under it, and
// the scopes below it.
type Scope struct {
	x         *Execution
	parent    *Scope
	below     []*Scope
	open      map[*Future]struct{}
	cancelled *history.Failure
}

func (s *Scope) add(f *Future) {
	if s.open == nil {
		s.open = map[*Future]struct{}{}
	}
	s.x.made++
	f.made = s.x.made
	s.open[f] = struct{}{}
}

func (s *Scope) forget(f *Future) { delete(s.open, f) }

// cancel gives up all that is open under the scope, in the order in which it was
// asked for.
func (s *Scope) cancel(why *history.Failure) {
	if s.cancelled != nil {
		return
	}
	s.cancelled = why
	open := slices.SortedFunc(maps.Keys(s.open), func(a, b *Future) int { return a.made - b.made })
	for _, f := range open {
		f.cancel(why)
	}
	for _, b := range slices.Clone(s.below) {
		b.cancel(why)
	}
}
