//go:build !invariants

package rows

const checkInvariants = false // see invariants_on.go
