package standardwebhooks

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// SecretPrefix is how every secret starts, so that people and scanners recognise one.
const SecretPrefix = "whsec_"

// Sizes of a key, in bytes.
const (
	MinKey = 24
	MaxKey = 64
)

// ErrSecret means that a text is not a secret. The error never shows the text.
var ErrSecret = errors.New("not a secret")

// Secret is a key that sender and receiver share. It does not print: neither by
// itself nor as a field of something else, in no format. The zero value is no secret:
// nothing is signed with it, and nothing verifies against it.
type Secret struct {
	// key is a function because fmt prints the unexported fields of a struct without
	// asking their methods, and of a function it knows only the address.
	key func() []byte
}

// ParseSecret reads a secret: whsec_ and then the key in base64.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, SecretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("standardwebhooks: parse secret: it must start with %s: %w", SecretPrefix, ErrSecret)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("standardwebhooks: parse secret: what follows %s must be base64: %w", SecretPrefix, ErrSecret)
	}
	if len(key) < MinKey || len(key) > MaxKey {
		return Secret{}, fmt.Errorf("standardwebhooks: parse secret: the key has %d bytes, and must have %d to %d: %w",
			len(key), MinKey, MaxKey, ErrSecret)
	}
	return Secret{key: func() []byte { return key }}, nil
}

const redacted = SecretPrefix + "REDACTED"

// String hides the key.
func (Secret) String() string { return redacted }

// GoString hides the key.
func (Secret) GoString() string { return redacted }

// LogValue hides the key.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON hides the key. What it returns cannot be parsed again.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
