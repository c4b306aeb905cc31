package console

import "errors"

// Each calls f for each name. It continues after an error, and returns the values and all
// errors.
func Each[T any](names []string, f func(name string) (T, error)) ([]T, error) {
	var got []T
	var errs []error
	for _, name := range names {
		v, err := f(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, v)
	}
	return got, errors.Join(errs...)
}
