package action

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/abidehq/abide/bus"
)

// Request describes an action to add.
type Request struct {
	// Tenant, Slug and Target are those of the [Action]. An empty tenant means [DefaultTenant].
	Tenant string
	Slug   string
	Target string

	// ID is the ID of the action; if an action with that ID exists, it is returned unchanged.
	// Empty means a new ID. IDs that begin with "delivery-" are reserved for webhooks.
	ID string

	// At is when the action is due, rounded up to milliseconds; a time in the past means the
	// next tick. If it is zero, the action is due after Delay.
	At    time.Time
	Delay time.Duration

	// Payload is a JSON value for the target. It may be empty.
	Payload json.RawMessage

	// Idempotent: see [Action.Idempotent].
	Idempotent bool
}

// CheckSlug returns an error that matches [ErrInvalid] unless a slug consists of letters,
// digits, dots, dashes and underscores, and begins with neither a dash nor a dot.
func CheckSlug(slug string) error { return checkSlug("check", slug) }

func checkSlug(verb, slug string) error {
	if err := checkName(verb, "slug", slug, MaxSlug); err != nil {
		return err
	}
	for i, r := range slug {
		letter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_'
		if !letter && ((r != '-' && r != '.') || i == 0) {
			return invalid(verb, "slug %q has %q at byte %d; letters, digits, underscores and, after the first, dashes and dots are allowed", slug, r, i)
		}
	}
	return nil
}

func checkName(verb, field, value string, most int) error {
	if err := bus.CheckName(field, value, most); err != nil {
		return invalid(verb, "%v", err)
	}
	return nil
}

// checkWork checks what an action and a schedule have in common.
func checkWork(verb, tenant, slug, target string, payload json.RawMessage) error {
	if err := checkName(verb, "tenant", tenant, MaxTenant); err != nil {
		return err
	}
	if err := checkSlug(verb, slug); err != nil {
		return err
	}
	if err := checkName(verb, "target", target, MaxTarget); err != nil {
		return err
	}
	switch {
	case len(payload) > MaxPayload:
		return invalid(verb, "the payload has %d bytes, at most %d are allowed", len(payload), MaxPayload)
	case len(payload) > 0 && !json.Valid(payload):
		return invalid(verb, "the payload is not JSON")
	}
	return nil
}

func (r *Request) check(verb string) error {
	if err := checkWork(verb, r.Tenant, r.Slug, r.Target, r.Payload); err != nil {
		return err
	}
	if r.ID != "" {
		if err := checkName(verb, "ID", r.ID, MaxID); err != nil {
			return err
		}
	}
	switch {
	case strings.HasPrefix(r.ID, deliveryPrefix):
		return invalid(verb, "ID %q begins with %q, which is reserved for webhooks", r.ID, deliveryPrefix)
	case !r.At.IsZero() && r.Delay != 0:
		return invalid(verb, "a time and a delay are given; only one is allowed")
	case r.Delay < 0:
		return invalid(verb, "the delay is %v, which is negative", r.Delay)
	case r.At.Year() > 9998 || r.Delay > 100*365*24*time.Hour:
		return invalid(verb, "it is due too far in the future; at most a hundred years, and before the year 9999, is allowed")
	}
	return nil
}
