package abide

import (
	"time"

	"github.com/abidehq/abide/history"
)

// Quarantined is a message that could not be processed and needs an operator's decision: the
// task of an activity that has crashed its process repeatedly, an event whose instance was never
// started, or a message that cannot be decoded.
type Quarantined struct {
	// Tenant and ID identify the entry.
	Tenant string
	ID     string

	// Reason is why the message is in quarantine, and At since when.
	Reason string
	At     time.Time

	// Queue, Key and Route are those of the message.
	Queue string
	Key   string
	Route string

	// Message is the ID of the message, Attempts the number of its deliveries, and Body its
	// content.
	Message  string
	Attempts int
	Body     []byte

	// Instance is the ID of the instance that the message is for, and Event what it brings: an
	// event that was raised, a start, a result, or the activity of a task. They are not set for
	// messages of timers and actions, and for one that cannot be read.
	Instance string
	Event    *history.Event
}

// QuarantineFilter selects quarantined messages.
type QuarantineFilter struct {
	// Tenant selects the messages of a tenant. Nil means those of all tenants. Those of
	// the default tenant include the messages of its timers and actions.
	Tenant *string

	// Limit is the largest number of messages in a page, at most 10,000. Zero means 100.
	Limit int

	// Cursor is [QuarantinePage.Next] of the page before. Empty means the first page.
	Cursor string
}

// QuarantinePage is a page of quarantined messages.
type QuarantinePage struct {
	Messages []Quarantined

	// Next is the cursor of the next page, and empty for the last page.
	Next string
}
