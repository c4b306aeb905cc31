package abide

// FailureOf returns the form in which an error is recorded in history: its type, message and
// causes. Programs that transmit the errors of instances transmit this.
func FailureOf(err error) *HistoryFailure {
	if err == nil {
		return nil
	}
	return failureFrom(failureOf(err))
}

// Err is the inverse of [FailureOf]. [errors.Is] recognises the error by its type.
func (f *HistoryFailure) Err() error {
	var n narrow // an attempt that does not fit is not part of the error
	return errorOf(f.failure(&n))
}
