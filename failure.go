package abide

// FailureOf returns what is kept of an error: its type, its message and what it was caused
// by. That is all that crosses from one process to another, so a program that hands the
// errors of instances on, over a wire or to a page, hands on this.
func FailureOf(err error) *HistoryFailure {
	if err == nil {
		return nil
	}
	return failureFrom(failureOf(err))
}

// Err is the inverse of [FailureOf]: an error that [errors.Is] recognises by its type, as
// it would the one that was kept.
func (f *HistoryFailure) Err() error {
	var n narrow // an attempt that does not fit is not part of the error
	return errorOf(f.failure(&n))
}
