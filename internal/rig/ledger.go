package rig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
)

// Ledger is what callers were told about each of some things, and what was found to be
// wrong when that was held against what is there. It is safe for concurrent use; the
// entries are not.
type Ledger[K cmp.Ordered, E any] struct {
	mu       sync.Mutex
	entries  map[K]*E
	problems []string
}

// Entry returns the entry of a key, and makes it if it is not there.
func (l *Ledger[K, E]) Entry(key K) *E {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[K]*E{}
	}
	if l.entries[key] == nil {
		l.entries[key] = new(E)
	}
	return l.entries[key]
}

// Find returns the entry of a key, or nil.
func (l *Ledger[K, E]) Find(key K) *E {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[key]
}

// Keys returns the keys of all entries, sorted.
func (l *Ledger[K, E]) Keys() []K {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.entries))
}

// Problem notes that something is wrong. The first twenty problems are kept.
func (l *Ledger[K, E]) Problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < 20 {
		l.problems = append(l.problems, fmt.Sprintf(format, args...))
	}
}

// Problems returns what is wrong.
func (l *Ledger[K, E]) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}

// Report fails the test if anything is wrong.
func (l *Ledger[K, E]) Report(t testing.TB) {
	t.Helper()
	for _, p := range l.Problems() {
		t.Error(p)
	}
}
