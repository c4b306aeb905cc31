package operation

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide"
)

// statuses are those that instances can have.
var statuses = []abide.Status{
	abide.Pending, abide.Running, abide.Suspended, abide.Stalled,
	abide.Completed, abide.Failed, abide.Cancelled, abide.Terminated,
}

// check returns an error that names what is wrong and what is allowed.
func (r *Request) check(verb string) error {
	f := &r.Filter
	switch {
	case !slices.Contains(Kinds, r.Kind):
		return invalid(verb, "unknown kind %q; %v are allowed", r.Kind, Kinds)
	case f.Tenant == nil && !r.All:
		return invalid(verb, "the filter names no tenant; name one, or say that all of them are meant")
	case f.Tenant != nil && r.All:
		return invalid(verb, "the filter names a tenant, and all of them are to be meant; only one is allowed")
	case f.Descending || f.Limit != 0 || f.Cursor != "":
		return invalid(verb, "the filter says how to page, and all that match are meant")
	case !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To):
		return invalid(verb, "from %v to %v is not a range", f.From, f.To)
	case !f.To.IsZero() && f.To.Before(time.UnixMilli(1)), !f.From.IsZero() && f.From.Before(time.UnixMilli(1)):
		return invalid(verb, "the filter has a time before 1970")
	case f.To.Year() > 9998 || f.From.Year() > 9998:
		return invalid(verb, "the filter has a time after the year 9998")
	case len(f.Tags) > 64 || len(f.Orchestrations) > 1000:
		return invalid(verb, "the filter has %d tags and %d orchestrations; 64 and 1000 are allowed", len(f.Tags), len(f.Orchestrations))
	}
	for _, status := range f.Statuses {
		if !slices.Contains(statuses, status) {
			return invalid(verb, "unknown status %q of instances; %v are allowed", status, statuses)
		}
	}
	if r.ID != "" {
		if err := checkText(verb, "ID", r.ID, 1, MaxID); err != nil {
			return err
		}
	}
	if err := checkText(verb, "reason", r.Reason, 0, MaxReason); err != nil {
		return err
	}
	return checkText(verb, "name of who asks", r.By, 0, MaxBy)
}

func checkText(verb, field, text string, least, most int) error {
	switch {
	case len(text) < least:
		return invalid(verb, "the %s is empty", field)
	case len(text) > most:
		return invalid(verb, "the %s has %d bytes, at most %d are allowed", field, len(text), most)
	case !utf8.ValidString(text):
		return invalid(verb, "the %s is not UTF-8", field)
	}
	return nil
}
