package hook

import (
	"net/http"
	"time"

	"github.com/abidehq/abide/internal/standardwebhooks"
)

// StandardWebhooks verifies what follows the specification of that name, version 1, with
// symmetric keys: a SHA-256 HMAC of the ID, the time and the body. The delivery is
// webhook-id.
type StandardWebhooks struct {
	// Secrets are whsec_ and then 24 to 64 bytes in base64: the one that is used and, while
	// it is replaced, the one before.
	Secrets []Secret

	// Tolerance is the largest difference between the time of a signature and the clock, in
	// either direction. Zero means [DefaultTolerance].
	Tolerance time.Duration
}

var _ Verifier = StandardWebhooks{}

// Open reads the secrets.
func (v StandardWebhooks) Open() (Scheme, error) {
	texts, err := resolve(v.Secrets)
	if err != nil {
		return Scheme{}, err
	}
	secrets := make([]standardwebhooks.Secret, len(texts))
	for i, text := range texts {
		if secrets[i], err = standardwebhooks.ParseSecret(text); err != nil {
			return Scheme{}, err
		}
	}
	within, err := tolerance(v.Tolerance)
	if err != nil {
		return Scheme{}, err
	}
	return Scheme{
		Keep: []string{standardwebhooks.HeaderID, standardwebhooks.HeaderTimestamp},
		Hide: []string{standardwebhooks.HeaderSignature},
		Verify: func(header http.Header, body []byte, now time.Time) (string, error) {
			return standardwebhooks.Verify(header, body, now, within, secrets...)
		},
	}, nil
}
