//go:build !invariants

package pebblestore

// checkInvariants does nothing without the build tag invariants.
func (s *Store) checkInvariants() {}
