package store

import "time"

// Millis returns t in milliseconds since 1970, rounded up, as the contract counts
// the time at which a message is visible: never early. Times before 1970 are 0.
func Millis(t time.Time) int64 {
	if t.Unix() < 0 {
		return 0
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// RecordMillis returns t in milliseconds since 1970, rounded down, as the contract
// counts the Time of a record.
func RecordMillis(t time.Time) int64 {
	if t.Unix() < 0 {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of [Millis], in UTC.
func FromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
