// Package standardwebhooks signs and verifies webhooks as the specification Standard
// Webhooks says: an HMAC-SHA256 over "id.timestamp.body", in three headers.
package standardwebhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed webhook.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// version is that of the only scheme here. Signatures of other versions may stand
// beside ours, and are passed over.
const version = "v1"

// Sign returns the headers of a webhook that is sent at that time: one signature for
// each secret, so that a receiver which knows only the old or only the new one accepts
// it while a secret is being replaced.
//
// The id is the event's, the same each time that the event is sent. It must be
// printable ASCII without spaces, and without a number after a full stop, or [Verify]
// refuses it.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if s.key != nil {
			signatures = append(signatures, version+","+base64.StdEncoding.EncodeToString(s.sum(id, timestamp, body)))
		}
	}
	header := http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}}
	if len(signatures) > 0 {
		header.Set(HeaderSignature, strings.Join(signatures, " "))
	}
	return header
}

func (s Secret) sum(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key())
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}
