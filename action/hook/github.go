package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// GitHub verifies what GitHub sends, and those who sign as it does: a SHA-256 HMAC of the
// body in X-Hub-Signature-256. The delivery is X-GitHub-Delivery. There is no time in what
// is signed, so nothing is ever stale. The type of the event is X-GitHub-Event; ping, which GitHub
// sends when a hook is made, never becomes an action.
type GitHub struct {
	// Secrets are the hook's secret and, while it is replaced, the one before.
	Secrets []Secret
}

var _ Verifier = GitHub{}

// Headers of GitHub.
const (
	githubSignature = "X-Hub-Signature-256"
	githubDelivery  = "X-GitHub-Delivery"
	githubEvent     = "X-GitHub-Event"
	githubPrefix    = "sha256="
)

// Open reads the secrets.
func (v GitHub) Open() (Scheme, error) {
	keys, err := resolve(v.Secrets)
	if err != nil {
		return Scheme{}, err
	}
	return Scheme{
		Keep:  []string{githubDelivery, githubEvent, "X-GitHub-Hook-ID"},
		Hide:  []string{githubSignature, "X-Hub-Signature"},
		Event: func(header http.Header, _ []byte) string { return header.Get(githubEvent) },
		Tests: []string{"ping"},
		Verify: func(header http.Header, body []byte, _ time.Time) (string, error) {
			value, err := single(header, githubSignature)
			if err != nil {
				return "", err
			}
			signature, err := unhex(githubSignature, value, githubPrefix)
			if err != nil {
				return "", err
			}
			if !anySigned(sha256.New, keys, [][]byte{signature}, body) {
				return "", ErrSignature
			}
			return deliveryIn(header, githubDelivery)
		},
	}, nil
}

// unhex reads a signature in hexadecimal digits after a prefix.
func unhex(name, value, prefix string) ([]byte, error) {
	digits, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return nil, fmt.Errorf("%s must begin with %s: %w", name, prefix, ErrMalformed)
	}
	signature, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("%s must be in hexadecimal digits: %w", name, ErrMalformed)
	}
	return signature, nil
}
