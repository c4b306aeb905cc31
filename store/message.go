package store

import (
	"strconv"
	"time"
)

// Key names what messages are for: an instance, one run of an activity, a timer.
// Queue is chosen by the program, Tenant and Name may hold any bytes; Tenant may
// be empty, Queue and Name may not.
type Key struct {
	Queue  string
	Tenant string
	Name   string
}

// String returns the key for people, quoted where it must be: turns/acme/order-1.
func (k Key) String() string {
	return readable(k.Queue) + "/" + readable(k.Tenant) + "/" + readable(k.Name)
}

// readable returns s as it is if it prints well, and quoted otherwise.
func readable(s string) string {
	if len(s) > maxReadable {
		s = s[:maxReadable] + "…"
	}
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// maxReadable keeps a hostile name from filling an error message.
const maxReadable = 128

// Message is a durable item for a key.
type Message struct {
	Key Key

	// ID names the message within its key. Putting an ID that is already pending
	// for the key changes nothing: the first one stays as it is, except that a
	// Route on the second one counts. Once a message is consumed or deleted its ID
	// is free again.
	ID string

	// Route, if not empty, becomes the route of the key. See the package comment. A
	// message that a store returns has the route that its key has.
	Route string

	// IfRouted makes the put conditional: the message is put only if its key has a
	// route at that point of the commit, counting what the same Tx has done to the key
	// before it (keys it deleted, routes set by earlier messages in [Tx.Put]). If the
	// key has no route, the message is dropped and the rest of the Tx is committed. A
	// message with IfRouted must have neither Route nor TTL. The flag is not stored: a
	// message that a store returns does not have it.
	IfRouted bool

	// New vouches that no commit before this one has used the key. The store need not look for it
	// then, which is much of what a commit costs. It is for names that nobody else can know, such as
	// random ones: if the key is in use all the same, the store may return [ErrConflict], or lose
	// what the key has. The flag is not stored.
	New bool

	// VisibleAt is the time before which nobody sees the message. The zero time, and
	// any time in the past, mean now. Times before 1970 are in the past; times after
	// the year 9999 are invalid. A message that a store returns has the time from
	// which it is visible, as the package comment defines it.
	VisibleAt time.Time

	// TTL is how long the message waits if its key has no route, counted from the
	// commit that put it, in whole milliseconds, rounded up. Then it goes to
	// quarantine, with the reason [ReasonExpired]; it is there at the latest when a
	// Claim that began after that time returns. Zero means [DefaultTTL]. TTL means
	// nothing once the key has a route.
	TTL time.Duration

	Body []byte

	// Attempt is how often the message has been claimed, this delivery included. It
	// is set by the store, and ignored by Commit: a message that is put starts at 0.
	Attempt int

	// PutAt is the time of the commit that put the message. It is set by the store.
	PutAt time.Time
}

// Ref returns what names the message.
func (m *Message) Ref() MessageRef { return MessageRef{Key: m.Key, ID: m.ID} }

// MessageRef names a pending message.
type MessageRef struct {
	Key Key
	ID  string
}

// String returns the reference for people.
func (r MessageRef) String() string { return r.Key.String() + "#" + readable(r.ID) }
