package hook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action/hook"
)

// FuzzVerify: whatever a stranger puts into the headers, it is refused, with an error
// that says why, and nothing breaks.
func FuzzVerify(f *testing.F) {
	var schemes []hook.Scheme
	for _, s := range signers {
		schemes = append(schemes, open(f, s.verifier(keyA)))
		h := s.sign(keyB, noon, "{}")
		f.Add(h.Get(s.signature), unix(noon), []byte("{}"))
	}
	for _, value := range []string{"", "=", "v1,", "t=", "t=,v1=", "v0=", "sha256=", "s=", "t=1,t=1", "v1=\xff", ",,,=,=", "v1, v1,"} {
		f.Add(value, value, []byte(value))
	}
	f.Fuzz(func(t *testing.T, value, at string, body []byte) {
		h := http.Header{}
		for _, s := range signers {
			h.Set(s.signature, value)
			if s.timestamp != "" {
				h.Set(s.timestamp, at)
			}
		}
		h.Set("Webhook-Id", at)
		for i, scheme := range schemes {
			delivery, err := scheme.Verify(h, body, noon)
			if err == nil || delivery != "" {
				t.Fatalf("%s takes it as %q", signers[i].name, delivery)
			}
			known := errors.Is(err, hook.ErrMissing) || errors.Is(err, hook.ErrMalformed) ||
				errors.Is(err, hook.ErrStale) || errors.Is(err, hook.ErrSignature)
			if !known {
				t.Fatalf("%s refuses it with %v", signers[i].name, err)
			}
		}
	})
}

// FuzzTemplate: what a template says is what is signed, and no template breaks anything.
func FuzzTemplate(f *testing.F) {
	for _, template := range []string{"{body}", "{timestamp}.{body}", "{body}{timestamp}", "a{timestamp}b{body}c", "{{body}}{timestamp}", "{bod{timestamp}y}{body}"} {
		f.Add(template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		v := hook.HMAC{Secrets: secrets(key), Header: "X-Sig", TimestampHeader: "X-Time", Template: template}
		scheme, err := v.Open()
		if err != nil || template == "" {
			return
		}
		const body = "{\"a\":1}"
		signed := strings.NewReplacer("{timestamp}", unix(noon), "{body}", body).Replace(template)
		h := header("X-Sig", hexSum(key, signed), "X-Time", unix(noon))
		if _, err := scheme.Verify(h, []byte(body), noon.Add(time.Second)); err != nil {
			t.Errorf("%q as %q: %v", template, signed, err)
		}
	})
}
