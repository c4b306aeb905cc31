package webhookbus

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	sdk "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
)

func secret(letter string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// TestSigned has the SDK of Standard Webhooks verify what arrives, for both secrets while
// one is replaced by the other.
func TestSigned(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			b := newBus(t, r.URL, func(c *Config) { c.Mode, c.Secrets, c.Concurrency = mode, []string{secret("a"), secret("b")}, 1 })
			ids := []string{"0193f3a0-0000-7000-8000-000000000001", "with space", "Müller", "a.1.b"}
			var list []bus.Envelope
			for _, id := range ids {
				list = append(list, envelope(id))
			}
			check.OK(t, b.Publish(t.Context(), list))
			for i, want := range []string{ids[0], "with%20space", "M%C3%BCller", "a%2E1%2Eb"} {
				req := r.got()[i]
				check.Equal(t, "webhook-id", req.Header.Get("webhook-id"), want)
				for _, s := range []string{secret("a"), secret("b")} {
					theirs, err := sdk.NewWebhook(s)
					check.OK(t, err)
					if err := theirs.Verify(req.body, req.Header); err != nil {
						t.Errorf("the SDK refuses %s: %v", want, err)
					}
				}
				stranger, err := sdk.NewWebhook(secret("c"))
				check.OK(t, err)
				if stranger.Verify(req.body, req.Header) == nil {
					t.Error("the SDK accepts it with a secret that did not sign it")
				}
			}
		})
	}
}

// TestSignedAgain: another try has the time of the try, and the ID of the event.
func TestSignedAgain(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	clock := base.NewManual(time.Unix(1772366400, 0))
	b := newBus(t, r.URL, func(c *Config) { c.Secrets, c.Clock = []string{secret("a")}, clock })
	for range 2 {
		check.OK(t, publishOne(t, b, envelope("id-1")))
		clock.Advance(time.Hour)
	}
	for i, want := range []string{"1772366400", "1772370000"} {
		req := r.got()[i]
		if id, at := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp"); id != "id-1" || at != want {
			t.Errorf("try %d: webhook-id is %q, webhook-timestamp is %q, want %q", i+1, id, at, want)
		}
	}
}
