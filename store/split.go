package store

import "errors"

// Split calls commit with all the items. If that returns [ErrClaimLost], [ErrConflict] or
// [ErrTooLarge], so that nothing has changed because of at least one of them, or because
// they are too many, it continues with each half of them separately: one that cannot be
// committed does not keep the others from it, and is found in a number of commits that
// grows with the logarithm of how many there are. What commit makes of a single item is
// up to commit.
func Split[T any](items []T, commit func([]T) error) {
	if len(items) == 0 {
		return
	}
	err := commit(items)
	if len(items) > 1 && (errors.Is(err, ErrClaimLost) || errors.Is(err, ErrConflict) || errors.Is(err, ErrTooLarge)) {
		half := len(items) / 2
		Split(items[:half], commit)
		Split(items[half:], commit)
	}
}
