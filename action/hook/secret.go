package hook

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// maxSecret is the largest secret, in bytes. A file that is longer is another one.
const maxSecret = 4096

// Secret is a key that a sender and a hook share. It does not print: neither by itself
// nor as a field of something else, in no format.
type Secret struct {
	// text is a function because fmt prints the unexported fields of a struct without
	// asking their methods, and of a function it knows only the address.
	text func() string
}

// NewSecret returns a secret: the text itself, or where it is. With env:NAME it is the
// value of an environment variable, and with file:/path the content of a file without
// the line break at its end. These are read by [New]. A secret that begins with env: or
// file: itself can be kept in a file.
func NewSecret(text string) Secret { return Secret{text: func() string { return text }} }

// UnmarshalText makes a secret as [NewSecret] does, so that one can stand in a
// configuration.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

const redacted = "REDACTED"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret.
func (Secret) GoString() string { return redacted }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret. What it returns is not one.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// resolve returns the text of a secret, from wherever it is.
func (s Secret) resolve() (string, error) {
	if s.text == nil {
		return "", errors.New("a secret is empty")
	}
	text := s.text()
	where := "a secret"
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		where = fmt.Sprintf("the secret in the environment variable %.64q", name)
		text = os.Getenv(name)
	} else if name, ok := strings.CutPrefix(text, "file:"); ok {
		where = fmt.Sprintf("the secret in the file %q", name)
		content, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", where, err)
		}
		text = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	}
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty", where)
	case len(text) > maxSecret:
		return "", fmt.Errorf("%s has %d bytes, at most %d are allowed", where, len(text), maxSecret)
	}
	return text, nil
}

// resolve returns the texts of the secrets of a verifier.
func resolve(secrets []Secret) ([]string, error) {
	if n := len(secrets); n == 0 || n > MaxSecrets {
		return nil, fmt.Errorf("there are %d secrets; 1 to %d are needed", n, MaxSecrets)
	}
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		var err error
		if texts[i], err = s.resolve(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}
