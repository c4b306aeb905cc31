package abide

import (
	"context"
	"time"
)

// Quarantined is a message that could not be handled, and waits for a person: an
// activity that took its process down time and again, an event whose instance never
// came, a message that cannot be read.
type Quarantined struct {
	// Tenant and ID name it.
	Tenant string
	ID     string

	// Reason says why it is here, and At since when.
	Reason string
	At     time.Time

	// Queue and Key say what the message was for, and Route who was to handle it.
	Queue string
	Key   string
	Route string

	// Message is its ID, Attempts how often it was delivered, and Body what it says.
	Message  string
	Attempts int
	Body     []byte
}

// QuarantineFilter says which quarantined messages to list.
type QuarantineFilter struct {
	// Tenant, if not nil, is the one whose messages to list.
	Tenant *string

	// Limit is how many to return: 100 if it is 0, at most 10,000.
	Limit int

	// Cursor is the Next of the page before.
	Cursor string
}

// QuarantinePage is a part of a list of quarantined messages.
type QuarantinePage struct {
	Messages []Quarantined

	// Next is the cursor of the next page, and empty if there is none.
	Next string
}

func (c *client) Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error) {
	list, next, err := c.c.Quarantine(ctx, filter.Tenant, filter.Limit, filter.Cursor)
	if err != nil {
		return QuarantinePage{}, asInvalid(err)
	}
	page := QuarantinePage{Messages: make([]Quarantined, len(list)), Next: next}
	for i := range list {
		page.Messages[i] = Quarantined(list[i])
	}
	return page, nil
}

func (c *client) Redrive(ctx context.Context, tenant, id string) error {
	return asInvalid(c.c.Redrive(ctx, tenant, id))
}

func (c *client) Discard(ctx context.Context, tenant, id string) error {
	return asInvalid(c.c.Discard(ctx, tenant, id))
}
