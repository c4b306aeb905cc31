package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/abidehq/abide/action/hook"
)

// hidden is what is shown of a secret.
const hidden = "********"

// maxSecret is the largest secret, in bytes. A file that is longer is another one.
const maxSecret = 64 << 10

// Secret is a text that is not shown by accident: it does not print, neither by itself nor
// as a field of something else. In a configuration it is the text itself, or where it is:
// env:NAME for a variable of the environment, file:/path for a file, whose line break at
// the end does not count.
type Secret struct {
	// text is a function because fmt prints the unexported fields of a struct without
	// asking their methods, and of a function it knows only the address.
	text func() string
	ref  string // where it is, or empty if the configuration has it
}

// NewSecret returns a secret that is known.
func NewSecret(text string) Secret { return Secret{text: func() string { return text }} }

// readSecret returns the secret that a value stands for.
func readSecret(value string) (Secret, error) {
	text, ref := value, value
	if name, ok := strings.CutPrefix(value, "env:"); ok {
		if text = os.Getenv(name); text == "" {
			return Secret{}, fmt.Errorf("the variable %s is not set, or empty", name)
		}
	} else if name, ok := strings.CutPrefix(value, "file:"); ok {
		var err error
		if text, err = readSecretFile(name); err != nil {
			return Secret{}, err
		}
	} else {
		ref = ""
	}
	s := NewSecret(text)
	s.ref = ref
	return s, nil
}

// readSecretFile returns what is in a file, without the line break at its end.
func readSecretFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s has %d bytes; at most %d are allowed", name, info.Size(), maxSecret)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if text == "" {
		return "", errors.New(name + " is empty")
	}
	return text, nil
}

// Reveal returns the secret itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return s.text()
}

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// forHook returns the secret as a hook takes it. One that is a text that looks like a
// reference would be taken for one, so references are handed on as they are.
func (s Secret) forHook() hook.Secret {
	if s.ref != "" {
		return hook.NewSecret(s.ref)
	}
	return hook.NewSecret(s.Reveal())
}

// String hides the secret, and says where it is if it is elsewhere.
func (s Secret) String() string {
	switch {
	case s.ref != "":
		return s.ref
	case s.IsZero():
		return ""
	default:
		return hidden
	}
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Place is where something is: a path, or a URL, which may hold a password that does not
// print.
type Place struct{ Secret }

// NewPlace returns a place that is known.
func NewPlace(text string) Place { return Place{NewSecret(text)} }

// String shows the place without what may be secret in it.
func (p Place) String() string {
	text := p.Reveal()
	if p.ref != "" || !strings.Contains(text, "://") {
		if p.ref != "" {
			return p.ref
		}
		return text
	}
	parts := []string{text}
	if strings.HasPrefix(text, "nats:") || strings.HasPrefix(text, "tls:") {
		parts = strings.Split(text, ",") // several servers
	}
	for i, part := range parts {
		u, err := url.Parse(part)
		if err != nil || u.Scheme == "" || u.Opaque != "" {
			return hidden // a password with a comma in it, for one
		}
		if u.User != nil && u.User.Username() != "" {
			if _, has := u.User.Password(); !has && u.Scheme == "nats" {
				u.User = url.User("xxxxx") // a token
			}
		}
		if u.RawQuery != "" && u.Scheme != "pebble" && u.Scheme != "memory" {
			u.RawQuery = "xxxxx"
		}
		if web := u.Scheme == "http" || u.Scheme == "https"; web && strings.Trim(u.Path, "/") != "" {
			u.Path, u.RawPath = "/xxxxx", "" // who knows the address of a webhook can send to it
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, ",")
}

// GoString hides what may be secret.
func (p Place) GoString() string { return p.String() }

// LogValue hides what may be secret.
func (p Place) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText hides what may be secret.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
