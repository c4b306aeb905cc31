package cli

import "errors"

// each calls f for each of several names. It goes on after an error, and returns what it got
// and all errors.
func each[T any](names []string, f func(name string) (T, error)) ([]T, error) {
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

// joined returns errors as one. A single one stays as it is.
func joined(errs ...error) error { return errors.Join(errs...) }
