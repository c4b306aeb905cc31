package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/standardwebhooks"
)

// Why a webhook is not taken. Errors of a [Scheme] match one of them; one that does not
// counts as [ErrSignature].
var (
	// ErrMissing: a header of the signature is not there, or is empty.
	ErrMissing = standardwebhooks.ErrMissing

	// ErrMalformed: such a header is there twice, or is not what it should be.
	ErrMalformed = standardwebhooks.ErrMalformed

	// ErrStale: it was signed too long ago, or too far in the future. It may be a replay, or the
	// clocks differ.
	ErrStale = standardwebhooks.ErrStale

	// ErrSignature: no signature is by any of the secrets.
	ErrSignature = standardwebhooks.ErrSignature

	// ErrDelivery: the sender is who it should be, but the name of the delivery is missing
	// or cannot be used.
	ErrDelivery = errors.New("no usable delivery ID")
)

// Verifier authenticates the senders of a hook: [StandardWebhooks], [GitHub], [Stripe], [Slack],
// [HMAC], or an implementation of the caller's.
type Verifier interface {
	// Open reads the secrets, and returns what verifies with them. It is called once, by
	// [New].
	Open() (Scheme, error)
}

// Scheme verifies webhooks.
type Scheme struct {
	// Verify returns the name of the delivery if the webhook was signed with one of the secrets.
	// It is the same when the sender sends it again, and empty if the sender gives it none: then
	// duplicates are not recognised. Verify does not change its arguments, and is called from
	// several goroutines. Errors never show a secret or a signature.
	Verify func(header http.Header, body []byte, now time.Time) (delivery string, err error)

	// Keep are the names of headers that are kept with the action, and Hide of those that
	// no hook can have kept: the signature.
	Keep, Hide []string

	// Event returns the type of the event that a verified webhook is about, such as push or
	// invoice.paid. Nil means that the sender has no types, so that a hook cannot select some.
	Event func(header http.Header, body []byte) string

	// Tests are the types that senders use to try a hook out. They never become an action.
	Tests []string
}

// trustAnybody is what verifies nothing.
func trustAnybody(http.Header, []byte, time.Time) (string, error) { return "", nil }

// outcomeOf returns what an error of a scheme is counted as.
func outcomeOf(err error) outcome {
	switch {
	case errors.Is(err, ErrMissing):
		return outcomeUnsigned
	case errors.Is(err, ErrMalformed):
		return outcomeMalformed
	case errors.Is(err, ErrStale):
		return outcomeStale
	case errors.Is(err, ErrDelivery):
		return outcomeDelivery
	default:
		return outcomeSignature
	}
}

// checkDelivery returns an error unless a name of a delivery can be kept.
func checkDelivery(id string) error {
	if len(id) > MaxDelivery {
		return fmt.Errorf("the delivery ID has %d bytes, at most %d are allowed: %w", len(id), MaxDelivery, ErrDelivery)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("the delivery ID must be printable ASCII without spaces: %w", ErrDelivery)
		}
	}
	return nil
}

// deliveryIn returns the name of a delivery that a header must hold.
func deliveryIn(header http.Header, name string) (string, error) {
	id, err := single(header, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, ErrDelivery)
	}
	return id, nil
}

// deliveryOf names a delivery by its body, for senders that put a name of the event into
// the body and nowhere else: the same body is the same event, and nothing of it need be
// understood to see that.
func deliveryOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// maxValue is how long the header of a signature may be, in bytes.
const maxValue = 4096

// single returns the value of a header that must be present once: of two, another reader
// might take the other.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%s is there %d times: %w", name, len(values), ErrMalformed)
	case len(values) == 0 || values[0] == "":
		return "", fmt.Errorf("%s: %w", name, ErrMissing)
	case len(values[0]) > maxValue:
		return "", fmt.Errorf("%s has %d bytes: %w", name, len(values[0]), ErrMalformed)
	}
	return values[0], nil
}

// tolerance returns the tolerance that is meant.
func tolerance(given time.Duration) (time.Duration, error) {
	switch {
	case given < 0 || given > MaxTolerance:
		return 0, fmt.Errorf("the tolerance is %v, and must be positive and at most %v", given, MaxTolerance)
	case given == 0:
		return DefaultTolerance, nil
	}
	return given, nil
}

// timestampBits leaves room for 30,000 years, and none for overflows.
const timestampBits = 40

// checkTime checks the time of a signature: seconds since 1970, close to now. There is
// one way to write it, so that nothing of what is signed beside it can pass for a part.
func checkTime(name, text string, now time.Time, tolerance time.Duration) error {
	seconds, err := strconv.ParseUint(text, 10, timestampBits)
	if err != nil || text[0] == '0' {
		return fmt.Errorf("%s must be in seconds since 1970: %w", name, ErrMalformed)
	}
	age := now.Sub(time.Unix(int64(seconds), 0))
	if age > tolerance || age < -tolerance {
		return fmt.Errorf("signed %v ago, and %v either way are allowed: %w", age, tolerance, ErrStale)
	}
	return nil
}

// anySigned reports whether one of the signatures is one of the parts, with one of the
// keys. It compares all with all, so that how long it takes does not depend on what is
// right.
func anySigned(algorithm func() hash.Hash, keys []string, signatures [][]byte, parts ...[]byte) bool {
	found := false
	for _, key := range keys {
		mac := hmac.New(algorithm, []byte(key))
		for _, part := range parts {
			mac.Write(part)
		}
		sum := mac.Sum(nil)
		for _, signature := range signatures {
			if hmac.Equal(signature, sum) {
				found = true
			}
		}
	}
	return found
}
