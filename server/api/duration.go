package api

import (
	"fmt"
	"strconv"
	"time"
)

// Duration is a duration that JSON has as text: "1m30s". A plain number means seconds.
type Duration time.Duration

// ParseDuration reads either form.
func ParseDuration(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= -1e9 && n <= 1e9) { // nor is it a number at all
			return 0, fmt.Errorf("%q seconds are out of range", text)
		}
		return time.Duration(n * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write 90s, 15m, 2h30m, or a number of seconds", text)
	}
	return d, nil
}

// MarshalText writes it as Go does: 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what [ParseDuration] reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
