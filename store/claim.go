package store

import "time"

// ClaimRequest says what a caller wants to claim.
type ClaimRequest struct {
	// Queue to claim from.
	Queue string

	// Routes that the caller serves. At least one; none of them empty.
	Routes []string

	// Tenants limits the claim to keys of these tenants: neither does it return a key of
	// another one, nor does a message of another one end its wait. Nil means all tenants. A list
	// that is not nil has 1 to [MaxClaimTenants] names, in any order; a name that it has twice
	// counts once. The cost grows with the number of names times the number of routes, and not
	// with what other tenants have.
	Tenants []string

	// Max is the largest number of keys to claim: 1 to [MaxClaim].
	Max int

	// MaxMessages is the largest number of messages to deliver with one key; they also
	// end before they exceed [PageBytes]. The others wait for the next claim. Zero
	// means [DefaultMessages].
	MaxMessages int

	// Lease is how long the claims last unless they are renewed: [MinLease] to
	// [MaxLease].
	Lease time.Duration

	// Wait is how long to wait when nothing is ready. Zero means not at all.
	Wait time.Duration

	// Lax says, of a call that does not wait, that it is made every now and then, so that
	// it may miss for a moment what another process has put: a store that is told of such
	// things answers from what it knows, and does not ask the database each time.
	Lax bool

	// MaxAttempts is how often a message may be delivered before it goes to
	// quarantine instead. Zero means without end.
	MaxAttempts int

	// Owner says who claims: the name of a worker and its process, say. The store keeps it
	// with the leases and tells it in [LeaseInfo]; it means nothing else. UTF-8 without
	// control characters, at most [MaxOwner] bytes; it may be empty.
	Owner string
}

// Claim is the exclusive right to a key's visible messages, for a while.
type Claim struct {
	Key   Key
	Token Token

	// Route is the key's route when it was claimed.
	Route string

	// Messages are the visible messages of the key, in order; at least one. Of a key
	// with more than [DefaultMessages] pending messages a store may deliver fewer
	// than it could, but always the first.
	Messages []Message

	// LogLength is the length of the key's log.
	LogLength int

	// LogTag is the [Append.Tag] that the key's log was begun with. Trimming keeps it;
	// a key that was deleted has the tag of its next log, or 0 while it has none.
	LogTag uint64

	// Now is the store's time at the claim.
	Now time.Time

	// Until is when the lease ends unless it is renewed, by the store's clock. From
	// that millisecond on the token is no longer live.
	Until time.Time
}

// Lease returns what names the claim's lease.
func (c *Claim) Lease() Lease { return Lease{Key: c.Key, Token: c.Token} }

// Attempt returns the highest attempt count among the claim's messages.
func (c *Claim) Attempt() int {
	most := 0
	for i := range c.Messages {
		most = max(most, c.Messages[i].Attempt)
	}
	return most
}

// Token fences what a claimer does: it is live until the lease ends, and no
// token is ever used twice. Its bytes mean nothing to callers.
type Token string

// Lease names a lease on a key.
//
// A lease ends when it is finished by a commit, released, or expired; when its
// key is deleted; or when one of the messages that were delivered with it is
// deleted or re-timed by a commit that does not finish it. From then on its
// token is not live, and its holder has lost the claim. A new route of the key
// does not end it.
type Lease struct {
	Key   Key
	Token Token
}

// Release says how to give up a lease.
type Release struct {
	Lease Lease

	// After is how long the delivered messages stay invisible: 0 to [MaxDelay].
	After time.Duration

	// Uncounted takes back the attempt that was counted at the claim: the work was
	// not tried, say because the process is shutting down.
	Uncounted bool
}
