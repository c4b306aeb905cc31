package hook

import (
	"crypto/sha256"
	"net/http"
	"time"
)

// Slack verifies what Slack sends: a SHA-256 HMAC of the time and the body, in
// X-Slack-Signature. Slack names its events in the body only, so that the body itself
// tells whether a delivery came before.
//
// Before it sends events to a new address, Slack asks it to repeat a word. A hook does not
// interpret bodies, so that request must be answered elsewhere.
type Slack struct {
	// Secrets are the app's signing secret and, while it is replaced, the one before.
	Secrets []Secret

	// Tolerance is the largest difference between the time of a signature and the clock, in
	// either direction. Zero means [DefaultTolerance].
	Tolerance time.Duration
}

var _ Verifier = Slack{}

// Headers of Slack.
const (
	slackTimestamp = "X-Slack-Request-Timestamp"
	slackSignature = "X-Slack-Signature"
	slackPrefix    = "v0="
)

// Open reads the secrets.
func (v Slack) Open() (Scheme, error) {
	keys, err := resolve(v.Secrets)
	if err != nil {
		return Scheme{}, err
	}
	within, err := tolerance(v.Tolerance)
	if err != nil {
		return Scheme{}, err
	}
	return Scheme{
		Keep: []string{slackTimestamp, "X-Slack-Retry-Num", "X-Slack-Retry-Reason"},
		Hide: []string{slackSignature},
		Verify: func(header http.Header, body []byte, now time.Time) (string, error) {
			at, err := single(header, slackTimestamp)
			if err != nil {
				return "", err
			}
			value, err := single(header, slackSignature)
			if err != nil {
				return "", err
			}
			signature, err := unhex(slackSignature, value, slackPrefix)
			if err != nil {
				return "", err
			}
			if err := checkTime(slackTimestamp, at, now, within); err != nil {
				return "", err
			}
			if !anySigned(sha256.New, keys, [][]byte{signature}, []byte("v0:"+at+":"), body) {
				return "", ErrSignature
			}
			return deliveryOf(body), nil
		},
	}, nil
}
