//go:build invariants

package rows

// checkInvariants has the invariants of all parts checked after each group.
const checkInvariants = true
