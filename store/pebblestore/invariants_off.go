//go:build !invariants

package pebblestore

import "github.com/abidehq/abide/store"

// These do nothing without the build tag invariants.

func (s *Store) checkInvariants()               {}
func (s *Store) checkNew(*keyState)             {}
func (s *Store) checkNewRecord(store.RecordKey) {}
