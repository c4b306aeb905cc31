package standardwebhooks

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Why a webhook is not to be trusted.
var (
	// ErrMissing: a header is not there, or is empty.
	ErrMissing = errors.New("missing header")

	// ErrMalformed: a header is there twice, or is not what it should be.
	ErrMalformed = errors.New("malformed header")

	// ErrStale: it was signed too long ago, or too far in the future. It may be a
	// replayed recording, or the clocks differ.
	ErrStale = errors.New("stale timestamp")

	// ErrSignature: no signature is by any of the secrets.
	ErrSignature = errors.New("no matching signature")
)

// timestampBits leaves room for 30,000 years, and none for overflows.
const timestampBits = 40

// Verify returns the id of a webhook that was signed with one of the secrets, at a
// time that differs from now by no more than the tolerance. Otherwise it returns an
// error that matches one of the sentinels above. How long it takes does not depend on
// how much of a signature is right.
//
// The body must be as it came, byte for byte. The same webhook verifies again within
// the tolerance: a receiver that must not act twice remembers the id.
func Verify(header http.Header, body []byte, now time.Time, tolerance time.Duration, secrets ...Secret) (id string, err error) {
	id, err = single(header, HeaderID)
	if err != nil {
		return "", err
	}
	if !validID(id) {
		return "", fmt.Errorf("standardwebhooks: verify: %s must be printable ASCII without spaces, and no number may follow a full stop in it: %w", HeaderID, ErrMalformed)
	}
	timestamp, err := single(header, HeaderTimestamp)
	if err != nil {
		return "", err
	}
	seconds, err := parseTimestamp(timestamp)
	if err != nil {
		return "", fmt.Errorf("standardwebhooks: verify: %s must be in seconds since 1970: %w", HeaderTimestamp, ErrMalformed)
	}
	signatures, err := single(header, HeaderSignature)
	if err != nil {
		return "", err
	}
	age := now.Sub(time.Unix(int64(seconds), 0))
	if age > tolerance || age < -tolerance {
		return "", fmt.Errorf("standardwebhooks: verify: signed %v ago, and %v either way are allowed: %w", age, tolerance, ErrStale)
	}
	if !anyMatches(signatures, id, timestamp, body, secrets) {
		return "", fmt.Errorf("standardwebhooks: verify: %w", ErrSignature)
	}
	return id, nil
}

// single returns the value of a header that must occur once: of two values, another program could
// read the other one.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("standardwebhooks: verify: %s is there %d times: %w", name, len(values), ErrMalformed)
	case len(values) == 0 || values[0] == "":
		return "", fmt.Errorf("standardwebhooks: verify: %s: %w", name, ErrMissing)
	}
	return values[0], nil
}

func parseTimestamp(text string) (seconds uint64, err error) {
	return strconv.ParseUint(text, 10, timestampBits)
}

// validID refuses an id with which the same signature would hold for another id, time
// and body. What is signed is joined with full stops, and senders may have some in their
// ids, but not around what could be a timestamp: so, after the first full stop, the
// first part that could be one is the timestamp, and there is one way to read it.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	_, rest, _ := strings.Cut(id, ".")
	for part := range strings.SplitSeq(rest, ".") {
		if _, err := parseTimestamp(part); err == nil {
			return false
		}
	}
	return true
}

// anyMatches compares all signatures with all secrets, whatever it finds on the way.
func anyMatches(signatures, id, timestamp string, body []byte, secrets []Secret) bool {
	var given [][]byte
	for token := range strings.FieldsSeq(signatures) {
		v, encoded, _ := strings.Cut(token, ",")
		if v != version {
			continue
		}
		if signature, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			given = append(given, signature)
		}
	}
	found := false
	for _, s := range secrets {
		if s.key == nil {
			continue
		}
		sum := s.sum(id, timestamp, body)
		for _, signature := range given {
			if hmac.Equal(signature, sum) {
				found = true
			}
		}
	}
	return found
}
