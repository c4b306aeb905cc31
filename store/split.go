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

// SplitTenants is Split for items of several tenants. If commit returns an [ApartError], so that
// nothing has changed because the store keeps some of the tenants in different places, it
// continues with the items of each place separately, in their order, and Split divides these
// further where it has to.
func SplitTenants[T any](items []T, tenant func(T) string, commit func([]T) error) {
	if len(items) == 0 {
		return
	}
	var apart *ApartError
	Split(items, func(some []T) error {
		err := commit(some)
		if len(some) == len(items) && errors.As(err, &apart) {
			return nil // each place by itself
		}
		return err
	})
	if apart == nil {
		return
	}
	places := map[int][]T{}
	var order []int
	for _, item := range items {
		place := apart.Place(tenant(item))
		if places[place] == nil {
			order = append(order, place)
		}
		places[place] = append(places[place], item)
	}
	for _, place := range order {
		Split(places[place], commit)
	}
}
