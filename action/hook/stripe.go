package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Stripe verifies what Stripe sends: SHA-256 HMACs of the time and the body, in
// Stripe-Signature. Stripe names its events in the body only, so that the body itself
// tells whether a delivery came before. The type of the event is in the body, too.
type Stripe struct {
	// Secrets are the endpoint's secret, whsec_ included, and, while it is replaced, the one
	// before.
	Secrets []Secret

	// Tolerance is the largest difference between the time of a signature and the clock, in
	// either direction. Zero means [DefaultTolerance].
	Tolerance time.Duration
}

var _ Verifier = Stripe{}

const stripeSignature = "Stripe-Signature"

// Open reads the secrets.
func (v Stripe) Open() (Scheme, error) {
	keys, err := resolve(v.Secrets)
	if err != nil {
		return Scheme{}, err
	}
	within, err := tolerance(v.Tolerance)
	if err != nil {
		return Scheme{}, err
	}
	return Scheme{
		Hide: []string{stripeSignature},
		Event: func(_ http.Header, body []byte) string {
			var event struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal(body, &event) // what is not JSON has no type
			return event.Type
		},
		Verify: func(header http.Header, body []byte, now time.Time) (string, error) {
			value, err := single(header, stripeSignature)
			if err != nil {
				return "", err
			}
			at, signatures, err := parseStripe(value)
			if err != nil {
				return "", err
			}
			if err := checkTime("t in "+stripeSignature, at, now, within); err != nil {
				return "", err
			}
			if !anySigned(sha256.New, keys, signatures, []byte(at+"."), body) {
				return "", ErrSignature
			}
			return deliveryOf(body), nil
		},
	}, nil
}

// parseStripe reads t=…,v1=…,v1=… in any order. Schemes that it does not know are passed
// over, and so are signatures that cannot be right: another may be.
func parseStripe(value string) (at string, signatures [][]byte, err error) {
	for item := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch name {
		case "t":
			if at != "" {
				return "", nil, fmt.Errorf("%s has two times: %w", stripeSignature, ErrMalformed)
			}
			at = text
		case "v1":
			if signature, err := hex.DecodeString(text); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	switch {
	case at == "":
		return "", nil, fmt.Errorf("%s has no time: %w", stripeSignature, ErrMalformed)
	case len(signatures) == 0:
		return "", nil, fmt.Errorf("%s has no signature v1: %w", stripeSignature, ErrMalformed)
	}
	return at, signatures, nil
}
