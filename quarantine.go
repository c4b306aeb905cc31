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
	// Tenant selects the messages of a tenant. Nil means those of all tenants. The empty
	// tenant and [DefaultTenant] include the messages of timers and actions of the tenant with
	// that name.
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

// Quarantine returns a page of messages that could not be processed.
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

// Redrive puts a quarantined message back into its queue, with its attempts reset.
func (c *client) Redrive(ctx context.Context, tenant, id string) error {
	return quarantined(tenant, func(tenant string) error { return c.c.Redrive(ctx, tenant, id) })
}

// Discard deletes a quarantined message.
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
