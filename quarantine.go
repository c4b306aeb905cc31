package abide

import "time"

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
