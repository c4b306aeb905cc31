package replay

import (
	"maps"
	"slices"

	"github.com/abidehq/abide/history"
)

// Scope is what is cancelled together: all futures that were made under it, and the scopes below it. Scopes
// are a tree whose root is that of the execution; a shielded scope has no parent. A scope that was left, and
// has nothing open, is dropped from its parent, so that a long-running execution does not collect them.
//
// Cancelling emits events, in the order in which the futures were made, so it is deterministic.
type Scope struct {
	x         *Execution
	parent    *Scope
	below     map[*Scope]struct{}
	made      int // when, among the scopes and futures of the execution
	open      map[*Future]struct{}
	cancelled *history.Failure
	left      bool // nothing more will be asked for under it
}

func (s *Scope) add(f *Future) {
	if s.open == nil {
		s.open = map[*Future]struct{}{}
	}
	s.x.made++
	f.made = s.x.made
	s.open[f] = struct{}{}
}

func (s *Scope) forget(f *Future) {
	delete(s.open, f)
	if s.left {
		s.leave()
	}
}

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
	below := slices.SortedFunc(maps.Keys(s.below), func(a, b *Scope) int { return a.made - b.made })
	for _, b := range below {
		b.cancel(why)
	}
}

// newBelow returns a scope that is cancelled with this one.
func (s *Scope) newBelow() *Scope {
	s.x.made++
	b := &Scope{x: s.x, parent: s, cancelled: s.cancelled, made: s.x.made}
	if s.below == nil {
		s.below = map[*Scope]struct{}{}
	}
	s.below[b] = struct{}{}
	return b
}

// isBelow reports whether the scope is another one, or is cancelled with it.
func (s *Scope) isBelow(other *Scope) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// leave says that nothing more will be asked for under the scope. It is released as soon
// as nothing is open under it.
func (s *Scope) leave() {
	s.left = true
	if s.parent == nil || len(s.open) > 0 || len(s.below) > 0 {
		return
	}
	delete(s.parent.below, s)
	if s.parent.left {
		s.parent.leave()
	}
}
