package target

import (
	"fmt"

	"github.com/abidehq/abide/action"
)

// invalid returns an error about a field of a configuration. It matches
// [action.ErrInvalid].
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("target: %s %s: %w", field, fmt.Sprintf(format, args...), action.ErrInvalid)
}

// element names an element of a field that is a list.
func element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
