package abide

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
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
	// Tenant, if not nil, is the one whose messages to list. [DefaultTenant] and the empty
	// one are the same, and include those of timers and actions of the tenant of that name.
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
	list, next, err := c.quarantine(ctx, filter)
	if err != nil {
		return QuarantinePage{}, asInvalid(err)
	}
	page := QuarantinePage{Messages: make([]Quarantined, len(list)), Next: next}
	for i := range list {
		page.Messages[i] = Quarantined(list[i])
	}
	return page, nil
}

// Messages of timers and actions, which have a tenant of that name, are the default
// tenant's as those of instances are that have none. They come after them, and their
// cursors begin with another letter.
const (
	cursorEmpty   = "e"
	cursorDefault = "d"
)

func (c *client) quarantine(ctx context.Context, filter QuarantineFilter) ([]engine.Quarantined, string, error) {
	if filter.Tenant == nil || tenantOf(*filter.Tenant) != "" {
		return c.c.Quarantine(ctx, filter.Tenant, filter.Limit, filter.Cursor)
	}
	var list []engine.Quarantined
	cursor, named := strings.CutPrefix(filter.Cursor, cursorDefault)
	if !named {
		var next string
		var err error
		list, next, err = c.c.Quarantine(ctx, new(""), filter.Limit, strings.TrimPrefix(cursor, cursorEmpty))
		if err != nil || next != "" {
			return list, cursorEmpty + next, err
		}
		cursor = ""
	}
	room := cmp.Or(filter.Limit, store.DefaultPage) - len(list)
	more, next, err := c.c.Quarantine(ctx, new(DefaultTenant), cmp.Or(room, 1), cursor)
	if room == 0 && len(more) > 0 { // they are the next page
		return list, cursorDefault, err
	}
	if next != "" {
		next = cursorDefault + next
	}
	return append(list, more...), next, err
}

func (c *client) Redrive(ctx context.Context, tenant, id string) error {
	return quarantined(tenant, func(tenant string) error { return c.c.Redrive(ctx, tenant, id) })
}

func (c *client) Discard(ctx context.Context, tenant, id string) error {
	return quarantined(tenant, func(tenant string) error { return c.c.Discard(ctx, tenant, id) })
}

// quarantined does something to a message of a tenant. That of the default tenant may be
// kept under either of its names.
func quarantined(tenant string, do func(tenant string) error) error {
	tenant = tenantOf(tenant)
	err := do(tenant)
	if tenant == "" && errors.Is(err, ErrNotFound) {
		err = do(DefaultTenant)
	}
	return asInvalid(err)
}
