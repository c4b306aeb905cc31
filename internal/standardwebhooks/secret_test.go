package standardwebhooks

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// secretOf returns a secret of n bytes in its text form. Its bytes are letters, so that
// they are recognised wherever they are printed.
func secretOf(n int) string {
	return SecretPrefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("K"), n))
}

func parse(t *testing.T, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	check.OK(t, err)
	return s
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		says       string // empty if it is a secret
	}{
		{"the shortest", secretOf(24), ""},
		{"one with padding", secretOf(32), ""},
		{"the longest", secretOf(64), ""},
		{"too short", secretOf(23), "has 23 bytes, and must have 24 to 64"},
		{"too long", secretOf(65), "has 65 bytes, and must have 24 to 64"},
		{"empty", "", "must start with whsec_"},
		{"only the prefix", "whsec_", "has 0 bytes"},
		{"without the prefix", strings.TrimPrefix(secretOf(24), "whsec_"), "must start with whsec_"},
		{"not base64", "whsec_" + strings.Repeat("!", 40), "must be base64"},
		{"the private key of the asymmetric scheme", "whsk_" + strings.TrimPrefix(secretOf(64), "whsec_"), "must start with whsec_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSecret(c.text)
			if c.says == "" {
				if err != nil || s.key == nil {
					t.Errorf("parsed with %v", err)
				}
				return
			}
			if !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q, want one that says %q", err, c.says)
			}
			if rest := strings.TrimPrefix(c.text, "whsec_"); rest != "" && strings.Contains(err.Error(), rest) {
				t.Errorf("the error shows the secret: %v", err)
			}
			if s.key != nil {
				t.Error("with an error there must be no secret")
			}
		})
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	text := secretOf(30)
	s := parse(t, text)
	inside := struct {
		Exported   Secret
		unexported Secret
		several    []Secret
	}{s, s, []Secret{s}}

	var printed bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, value := range []any{s, &s, inside, &inside, inside.several} {
			fmt.Fprintf(&printed, verb+"\n", value)
		}
	}
	asJSON, err := json.Marshal(inside)
	check.OK(t, err)
	printed.Write(asJSON)
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "secret", s, "inside", inside)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "secret", s, "inside", inside)

	for what, key := range map[string]string{
		"the key":             "KKKK",
		"the key in base64":   strings.TrimPrefix(text, SecretPrefix)[:8],
		"the key in hex":      "4b4b4b4b",
		"the key in hex, big": "4B4B4B4B",
		"the key in decimal":  "75 75 75",
		"the key in Go":       "0x4b, 0x4b",
	} {
		if strings.Contains(printed.String(), key) {
			t.Errorf("%s is printed in:\n%s", what, &printed)
		}
	}
	if !strings.Contains(printed.String(), redacted) {
		t.Error("what is printed does not say that something is hidden")
	}
}
