package abide

import "github.com/abidehq/abide/history"

// FailureOf returns the form in which an error is recorded in history: its type, message and
// causes. Programs that transmit the errors of instances transmit this.
func FailureOf(err error) *history.Failure {
	if err == nil {
		return nil
	}
	return failureOf(err)
}

// ErrorOf is the inverse of [FailureOf], nil for nil. [errors.Is] recognises the error by its type.
func ErrorOf(f *history.Failure) error { return errorOf(f) }
