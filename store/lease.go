package store

import (
	"strings"
	"time"
)

// LeaseQuery selects live leases. The zero value selects all.
type LeaseQuery struct {
	// Key, if its Name is set, selects the lease of one key. Then Queue must be empty.
	Key Key

	// Queue, if it is set, selects the leases of one queue.
	Queue string

	// Limit is the largest number of leases to return, up to [MaxPage]. Zero means
	// [DefaultPage].
	Limit int
}

// LeaseInfo describes a live lease.
type LeaseInfo struct {
	Key Key

	// Route is the key's route.
	Route string

	// Owner is the [ClaimRequest.Owner] of the claim. It is empty if the request had none.
	Owner string

	// Until is when the lease ends unless it is renewed, by the store's clock.
	Until time.Time
}

// ownerEnd ends the owner in a token. An owner has no control characters.
const ownerEnd = "\n"

// OwnedToken returns a token that carries the owner of its claim, for backends that keep nothing
// else of a claimer with a lease. unique makes the token one that was never used before, and has
// no line feed. Without an owner the token is unique itself.
func OwnedToken(owner, unique string) Token {
	if owner == "" {
		return Token(unique)
	}
	return Token(owner + ownerEnd + unique)
}

// TokenOwner returns the owner that [OwnedToken] has put into a token.
func TokenOwner(t Token) string {
	owner, _, owned := strings.Cut(string(t), ownerEnd)
	if !owned {
		return ""
	}
	return owner
}
